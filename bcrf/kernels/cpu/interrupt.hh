// Interrupts of kernel calls by signals, such as Ctrl-C, and by exceptions in another thread.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>

namespace bcrf {

// Run Python's signal handlers. Return 0 if one raised an exception, which Python then holds. The
// extension modules set it; without Python it is null.
inline int (*run_signal_handlers)() = nullptr;

struct Interrupted : std::exception {
    const char* what() const noexcept override { return "the kernel call was interrupted"; }
};

// One call of a kernel. Its threads share it.
class Call {
    using Clock = std::chrono::steady_clock;
    std::atomic<bool> stopped_{false};
    Clock::time_point next_ = Clock::now() + INTERVAL;

  public:
    // Time between two looks at the signals. Each look takes Python's global lock.
    static constexpr std::chrono::milliseconds INTERVAL{100};

    bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
    void stop() { stopped_.store(true, std::memory_order_relaxed); }

    // Stop the call if a signal handler raises an exception. For the thread that called the kernel.
    void look_at_signals() {
        const auto now = Clock::now();
        if (now < next_ || is_stopped()) return;
        if (run_signal_handlers && !run_signal_handlers()) stop();
        next_ = Clock::now() + INTERVAL;
    }
};

struct ThreadOfCall {
    Call* call = nullptr;
    bool is_caller = false;
};

inline thread_local ThreadOfCall thread_of_call;

// Assign this thread to a call until the end of the scope.
class Scope {
    const ThreadOfCall before_ = thread_of_call;

  public:
    Scope(Call& call, bool is_caller) { thread_of_call = {&call, is_caller}; }
    ~Scope() { thread_of_call = before_; }
};

// Throw Interrupted if this thread's call has stopped. Long loops call this every few milliseconds.
inline void check_signals() {
    const ThreadOfCall thread = thread_of_call;
    if (!thread.call) return;
    if (thread.is_caller) thread.call->look_at_signals();
    if (thread.call->is_stopped()) throw Interrupted();
}

// Recursions look at the signals after so many tokens.
constexpr int TOKENS_A_CHECK = 256;

// Calls check_signals after each million of multiply-adds.
class SignalCheck {
    double left_ = 1e6;

  public:
    void add(double work) {
        if ((left_ -= work) > 0) return;
        left_ = 1e6;
        check_signals();
    }
};

}  // namespace bcrf
