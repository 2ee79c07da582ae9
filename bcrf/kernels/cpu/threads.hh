// A pool of threads that lives from one kernel call to the next.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "interrupt.hh"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace bcrf {

class Threads {
    // Not a mutex: a signal handler that runs in the middle of a call may call a kernel.
    std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
    const std::function<void()>* task_ = nullptr;
    int size_ = 0;
    // wanted_: threads that a call still wants; running_: threads that may run its task. They change without the mutex.
    // A thread that sleeps says so before its last look at them, so that whoever changes them sees it and wakes it.
    alignas(64) std::atomic<int> wanted_{0};
    alignas(64) std::atomic<int> running_{0};
    alignas(64) std::atomic<int> sleeping_{0};
    std::mutex mutex_;
    std::condition_variable wake_;

    // Wait for a short time until a condition holds. To wake a thread that sleeps takes as long as a
    // small call. A thread that yields leaves the processor to others, but the system call takes time, too.
    template <class Condition> static bool spin(Condition holds) {
        for (int i = 0; i < 200; ++i) {
            if (holds()) return true;
#if defined(__SSE2__)
            __builtin_ia32_pause();
#endif
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        while (std::chrono::steady_clock::now() < end) {
            if (holds()) return true;
            std::this_thread::yield();
        }
        return false;
    }

    // Return whether this thread got a share of the call. It then counts as running.
    bool enlist() {
        // First, because a call ends when it wants none and none runs.
        ++running_;
        for (int n = wanted_; n > 0;)
            if (wanted_.compare_exchange_weak(n, n - 1)) return true;
        --running_;
        return false;
    }

    void wait_and_work() {
        const auto is_wanted = [&] { return wanted_ > 0; };
        for (;;) {
            if (!spin(is_wanted)) {
                std::unique_lock<std::mutex> lock(mutex_);
                ++sleeping_;
                wake_.wait(lock, is_wanted);
                --sleeping_;
            }
            if (!enlist()) continue;
            (*task_)();
            --running_;
        }
    }

    void grow(int size) {
        for (; size_ < size; ++size_) {
            try {
                std::thread([this] { wait_and_work(); }).detach();
            } catch (const std::exception&) {
                return;  // The system has no more threads, or memory. Fewer do the same work.
            }
        }
    }

    static std::atomic<Threads*>& current() {
        static std::atomic<Threads*> threads{nullptr};
        return threads;
    }

  public:
    // Return the pool of this process. Nothing destroys it, because detached threads may outlive static objects.
    static Threads& get() {
        static std::mutex making;
        if (Threads* made = current()) return *made;
        std::lock_guard<std::mutex> lock(making);
        if (!current()) {
#if !defined(_WIN32)
            // A forked process does not inherit threads, so it starts a pool of its own.
            static const int once = pthread_atfork(
                [] { making.lock(); }, [] { making.unlock(); },
                [] {
                    current() = nullptr;
                    making.unlock();
                });
            (void)once;
#endif
            current() = new Threads;
        }
        return *current();
    }

    // Call `task` in this thread and in up to n - 1 threads of the pool. Return when all calls have
    // returned. `task` must not throw, and a single call must be able to do all the work. While one
    // caller has the pool, other callers run `task` alone.
    void run(int n, const std::function<void()>& task, Call& call) {
        if (taken_.test_and_set(std::memory_order_acquire)) return task();
        grow(n - 1);
        task_ = &task;
        wanted_ = n - 1;
        if (sleeping_ > 0) {
            std::lock_guard<std::mutex> lock(mutex_);
            for (int i = 1; i < n; ++i) wake_.notify_one();
        }
        task();
        wanted_ = 0;
        while (!spin([&] { return running_ == 0; })) {
            call.look_at_signals();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        taken_.clear(std::memory_order_release);
    }
};

// Call `task`, which does any work that is left, in up to n threads at once. An exception in one
// thread stops the others; the first one is rethrown here. A signal throws Interrupted.
inline void in_threads(int n, const std::function<void()>& task) {
    Call call;
    if (n < 2) {
        Scope scope(call, true);
        return task();
    }
    std::mutex mutex;
    std::exception_ptr error;
    const std::thread::id caller = std::this_thread::get_id();
    const std::function<void()> guarded = [&] {
        Scope scope(call, std::this_thread::get_id() == caller);
        try {
            task();
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            if (!error) error = std::current_exception();
            call.stop();
        }
    };
    Threads::get().run(n, guarded, call);
    if (error) std::rethrow_exception(error);
    if (call.is_stopped()) throw Interrupted();
}

}  // namespace bcrf
