import Glibc

/// Signals taken one by one by the thread that waits for them, instead of interrupting anything.
///
/// Made before other threads are: they inherit the mask.
struct SignalWait {
    private let set: sigset_t

    init(_ signals: [Int32]) {
        var wanted = sigset_t()
        unsafe sigemptyset(&wanted)
        for signal in signals { unsafe sigaddset(&wanted, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &wanted, nil)
        set = wanted
    }

    /// The next signal, waited for at most so long.
    func next(milliseconds: Int) -> Int32? {
        var wanted = set
        var limit = timespec(tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000)
        let signal = unsafe sigtimedwait(&wanted, nil, &limit)
        return signal > 0 ? signal : nil
    }
}
