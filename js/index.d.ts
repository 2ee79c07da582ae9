/** Trained chains of spacy-bcrf. Offsets count UTF-16 units, as in JavaScript's strings; `points` counts code points. */

export interface Token {
  text: string;
  start: number;
  end: number;
  /** Whether a blank follows, which belongs to the token. */
  blank: boolean;
}

export interface Span {
  label: string;
  text?: string;
  start: number;
  end: number;
  /** Start and end in code points, as in Python. */
  points: [number, number];
  /** First token, and one past the last. */
  tokens: [number, number];
  /** Probability of these boundaries and this label. */
  probability?: number;
}

export interface Labeling {
  probability: number;
  tags: string[];
  spans: Span[];
}

export interface Found {
  name: string;
  /** A tag for each token; "" below a threshold. Empty for spans that may overlap. */
  tags: string[];
  /** Probability of each tag, of a component that predicts tags. */
  probabilities?: number[];
  spans: Span[];
  /** The n best labelings, the best first. */
  nbest?: Labeling[];
}

export interface Annotation {
  text: string;
  tokens: Token[];
  components: Record<string, Found>;
}

export interface Region {
  start: number;
  end: number;
  label: string;
  score: number;
  /** Whether it is only another occurrence of a found string. */
  repeated: boolean;
}

export interface Redacted {
  text: string;
  /** The replacements in the new text. */
  spans: Region[];
  /** What they replace in the old text. */
  regions: Region[];
  /** Places of the new text where a found string still stands. */
  left: Region[];
  /** What numbered placeholders stand for. Empty for other styles. */
  placeholders: Record<string, string>;
}

/** pipe: a component's name, by default the only one of spans. threshold: least probability. promise: instead, a name in
 * `promises`. */
export interface CandidateOptions {
  pipe?: string;
  threshold?: number;
  promise?: string;
}

export interface RedactOptions extends CandidateOptions {
  style?: "label" | "mask" | "numbered";
}

export interface Final {
  tokens: Token[];
  tags: string[];
  spans: Span[];
  /** With `threshold`, `promise` or a promise of recall: the spans of `candidates`, with the token at which they start. */
  candidates: Span[];
  /** Spans of `bcrf_identifiers`, some before their tokens are final. */
  identifiers: Span[];
}

/** Annotates a text in pieces as if it were whole. */
export interface Stream {
  /** Take the next text. Returns what is final. */
  feed(text: string): Final;
  /** Return the rest. */
  close(): Final;
}

export interface Pipeline {
  readonly meta: Record<string, unknown>;
  /** Promises of each component by name. */
  readonly promises: Record<string, Record<string, unknown>>;
  annotate(text: string, options?: { nbest?: number }): Annotation;
  candidates(text: string, options?: CandidateOptions): Span[];
  redact(text: string, options?: RedactOptions): Redacted;
  stream(options?: CandidateOptions): Promise<Stream>;
}

/** The bytes are no model, damaged, or of a version that this one cannot read. `cause`: the error of a damaged one. */
export class ModelError extends Error {}

/** Load a file of `python -m spacy bcrf export`, gzipped or not. */
export function load(bytes: ArrayBuffer | Uint8Array): Promise<Pipeline>;

/** Return a text with what the placeholders of `redact` stand for. */
export function restore(text: string, placeholders: Record<string, string>): string;
