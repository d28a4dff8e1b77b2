import Glibc

/// A terminal in the mode that the line editor needs: bytes as they come, no echo, signals as bytes.
public final class TerminalDevice {
    private let input: Int32
    private let original: termios

    /// Switches standard input to raw bytes; `nil` when it is no terminal. Restored by `restore` and at the end.
    public init?() {
        input = 0
        var state = termios()
        guard isatty(0) == 1, isatty(1) == 1, unsafe tcgetattr(0, &state) == 0 else { return nil }
        original = state
        state.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG | IEXTEN)
        state.c_iflag &= ~tcflag_t(ICRNL | INLCR | IXON | ISTRIP)
        // One byte at least, no timer. Output processing stays on: plain lines of ours end in a line feed.
        guard unsafe tcsetattr(0, TCSADRAIN, &state) == 0 else { return nil }
        Self.write("\u{1b}[?2004h")
        // Without a handler the signal is ignored and does not end a wait.
        signal(SIGWINCH) { _ in }
    }

    deinit { restore() }

    /// Puts the terminal back as it was. More than once does no harm.
    public func restore() {
        var state = original
        Self.write("\u{1b}[?2004l")
        unsafe tcsetattr(input, TCSADRAIN, &state)
    }

    /// The bytes typed since the last call, waiting for none; `nil` at the end: the terminal is gone.
    public func read() -> [UInt8]? {
        var block = [UInt8](repeating: 0, count: 4_096)
        let got = unsafe Glibc.read(input, &block, block.count)
        if got > 0 { return Array(block.prefix(got)) }
        return got < 0 && (errno == EINTR || errno == EAGAIN) ? [] : nil
    }

    @discardableResult
    public static func write(_ text: String) -> Bool {
        text.isEmpty || StandardStream.write(Array(text.utf8), to: 1) == 0
    }

    /// Cells and rows; `nil` when the terminal does not say.
    public static func size(of descriptor: Int32) -> (width: Int, height: Int)? {
        var window = winsize()
        guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &window) == 0 else { return nil }
        return window.ws_col > 0 ? (Int(window.ws_col), Int(window.ws_row)) : nil
    }
}
