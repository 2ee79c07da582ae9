// What few models need.

export { bestSpans } from "./best_spans.js";
export { docAttribute } from "./doc_attributes.js";
export { RARE } from "./rare_attributes.js";
export { toFirstOrder } from "./second_order.js";
export { poolPosteriors } from "./two_pass.js";
