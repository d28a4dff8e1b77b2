import Glibc
import MeshBase

/// Whole lines to standard output and error, at once, without a buffer of ours: what was printed has left the process
/// (CLI-01).
public enum StandardStream {
    /// Why nothing more can be written to standard output.
    public enum End: Error, Hashable, Sendable {
        /// The reader is gone, as with `| head -1`: nobody's fault.
        case closed
        /// The disk is full, or worse.
        case failed(errorNumber: Int32)
    }

    /// Writes `lines`, each with its line feed, in one call where the system takes it.
    public static func print(_ lines: [String]) throws(End) {
        guard !lines.isEmpty else { return }
        try check(write(Array((lines.joined(separator: "\n") + "\n").utf8), to: 1))
    }

    public static func print(text: String) throws(End) { try check(write(Array(text.utf8), to: 1)) }

    /// Talk: a failure to talk is no failure.
    public static func talk(_ lines: [String]) {
        guard !lines.isEmpty else { return }
        _ = write(Array((lines.joined(separator: "\n") + "\n").utf8), to: 2)
    }

    public static func talk(text: String) { _ = write(Array(text.utf8), to: 2) }

    /// Writes `text` to any descriptor; returns an error number, 0 when all is written.
    public static func write(_ text: String, to descriptor: Int32) -> Int32 { write(Array(text.utf8), to: descriptor) }

    private static func check(_ number: Int32) throws(End) {
        if let end = end(for: number) { throw end }
    }

    /// What an error number of a write means for the command; `nil` for none.
    static func end(for number: Int32) -> End? {
        switch number {
        case 0: nil
        case EPIPE, EBADF: .closed
        default: .failed(errorNumber: number)
        }
    }

    /// Writes all of `bytes`; returns an error number, 0 when all is written. Waits for a slow reader.
    static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int32 {
        var start = 0
        while start < bytes.count {
            let put = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.write(descriptor, buffer.baseAddress! + start, bytes.count - start)
            }
            if put >= 0 {
                start += put
            } else if errno == EAGAIN {
                var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                unsafe poll(&wanted, 1, 1_000)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}

/// Results, failures and talk of one command, in the form that was asked for.
public struct Printer: Sendable {
    public var isJSON: Bool
    public var isQuiet: Bool
    /// For standard output.
    public var rendering: Rendering
    /// For standard error.
    public var errorRendering: Rendering

    public init(isJSON: Bool, isQuiet: Bool, noColor: Bool) {
        self.isJSON = isJSON
        self.isQuiet = isQuiet
        rendering = Self.rendering(for: 1, noColor)
        errorRendering = Self.rendering(for: 2, noColor)
    }

    private static func rendering(for descriptor: Int32, _ noColor: Bool) -> Rendering {
        let isTerminal = ProcessEnvironment.isTerminal(descriptor)
        let style = Style.decide(
            isTerminal: isTerminal, noColorOption: noColor, environment: ProcessEnvironment.variable)
        return Rendering(style: style, width: isTerminal ? TerminalDevice.size(of: descriptor)?.width : nil)
    }

    public func result(_ object: JSONValue) throws(StandardStream.End) {
        try StandardStream.print(isJSON ? [object.text] : rendering.lines(object))
        for remark in rendering.remarks(object) { talk(remark) }
    }

    public func failure(_ failure: CommandFailure) {
        StandardStream.talk(isJSON ? [failure.json.text] : errorRendering.lines(failure))
    }

    public func talk(_ line: String) {
        if !isQuiet, !isJSON { StandardStream.talk([line]) }
    }
}
