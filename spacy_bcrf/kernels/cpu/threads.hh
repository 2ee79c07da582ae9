// Threads that wait for work from one call of a kernel to the next.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace bcrf {

class Threads {
    std::mutex mutex_, taken_;
    std::condition_variable wake_, done_;
    const std::function<void()>* task_ = nullptr;
    int wanted_ = 0, running_ = 0, size_ = 0;

    void wait_and_work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return wanted_ > 0; });
            --wanted_;
            ++running_;
            const auto& task = *task_;
            lock.unlock();
            task();
            lock.lock();
            if (--running_ == 0) done_.notify_one();
        }
    }

    void grow(int size) {
        for (; size_ < size; ++size_) {
            try {
                std::thread([this] { wait_and_work(); }).detach();
            } catch (const std::system_error&) {
                return;  // there are no more to be had; fewer do the same work
            }
        }
    }

    static std::atomic<Threads*>& current() {
        static std::atomic<Threads*> threads{nullptr};
        return threads;
    }

  public:
    // Those of this process. Never destroyed: they may outlive whatever would do so.
    static Threads& get() {
        static std::mutex making;
        if (Threads* made = current()) return *made;
        std::lock_guard<std::mutex> lock(making);
        if (!current()) {
#if !defined(_WIN32)
            // A forked process has none of its parent's threads.
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

    // Calls `task` here and, if they come in time, from up to n - 1 others; returns when all calls
    // have. It must not throw, and one call must be enough. A second caller gets no others.
    void run(int n, const std::function<void()>& task) {
        std::unique_lock<std::mutex> alone(taken_, std::try_to_lock);
        if (!alone) return task();
        {
            std::lock_guard<std::mutex> lock(mutex_);
            grow(n - 1);
            task_ = &task;
            wanted_ = n - 1;
        }
        for (int i = 1; i < n; ++i) wake_.notify_one();
        task();
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = 0;
        done_.wait(lock, [&] { return running_ == 0; });
    }
};

// Calls `task`, which does whatever work is left, in up to n threads at once. What it throws
// in one of them is thrown here.
inline void in_threads(int n, const std::function<void()>& task) {
    if (n < 2) return task();
    std::mutex mutex;
    std::exception_ptr error;
    Threads::get().run(n, [&] {
        try {
            task();
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex);
            error = std::current_exception();
        }
    });
    if (error) std::rethrow_exception(error);
}

}  // namespace bcrf
