import CMeshSystem
import Glibc

/// A pthread of our own: named, with all signals left to the main thread, and joined by whoever waits for it.
public final class SystemThread: Sendable {
    private let handle: pthread_t
    private let isJoined = Lock(false)

    private final class Body {
        let name: String
        let work: @Sendable () -> Void
        init(name: String, work: @escaping @Sendable () -> Void) {
            self.name = name
            self.work = work
        }
    }

    /// Starts a thread that runs `work` once. `name` appears in `top` and debuggers, cut at 15 bytes.
    public init(name: String, _ work: @escaping @Sendable () -> Void) throws(SystemError) {
        let body = unsafe Unmanaged.passRetained(Body(name: name, work: work))
        var handle = pthread_t()
        var all = sigset_t()
        var previous = sigset_t()
        unsafe sigfillset(&all)
        unsafe pthread_sigmask(SIG_SETMASK, &all, &previous)
        let result = unsafe pthread_create(
            &handle, nil,
            { argument in
                let body = unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
                unsafe mesh_name_thread(body.name)
                body.work()
                return nil
            }, body.toOpaque())
        unsafe pthread_sigmask(SIG_SETMASK, &previous, nil)
        guard result == 0 else {
            unsafe body.release()
            throw .callFailed(call: "pthread_create", errorNumber: result)
        }
        self.handle = handle
    }

    /// A thread that nobody waits for gives its stack back by itself.
    deinit {
        if !isJoined.withLock({ $0 }) { pthread_detach(handle) }
    }

    /// Waits for the thread's end. A second call returns at once.
    public func join() {
        let isFirst = isJoined.withLock { joined in
            defer { joined = true }
            return !joined
        }
        if isFirst { pthread_join(handle, nil) }
    }
}
