import Glibc

/// Signals taken one by one by the thread that waits for them, instead of interrupting anything.
///
/// Made before other threads are: they inherit the mask.
struct SignalWait {
    private let set: sigset_t

    init(_ signals: [Int32]) {
        var wanted = sigset_t()
        unsafe sigemptyset(&wanted)
        for signal in signals + [Self.wakeSignal] { unsafe sigaddset(&wanted, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &wanted, nil)
        set = wanted
    }

    /// Ends one wait early, now or the next one; any thread of this process. Sent from outside it does no harm.
    static func wake() { kill(getpid(), wakeSignal) }

    private static let wakeSignal = SIGUSR1

    /// The next signal, waited for at most so long; `nil` when none came or `wake` was called.
    func next(milliseconds: Int) -> Int32? {
        var wanted = set
        var limit = timespec(tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000)
        let signal = unsafe sigtimedwait(&wanted, nil, &limit)
        return signal > 0 && signal != Self.wakeSignal ? signal : nil
    }
}
