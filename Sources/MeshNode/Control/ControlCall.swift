import MeshBase
import MeshSystem

/// One request on the control socket and the way its answer goes back.
public struct ControlCall: Sendable {
    public let verb: String
    /// The whole request object.
    public let request: JSONValue
    public let reply: ControlReply

    public init(request: JSONValue, reply: ControlReply) {
        self.request = request
        self.reply = reply
        verb = request["verb"]?.stringValue ?? ""
    }

    func text(_ name: String) -> String? { request[name]?.stringValue }
    func flag(_ name: String) -> Bool { request[name]?.boolValue ?? false }
    func integer(_ name: String) -> Int? { request[name]?.integerValue.flatMap { Int(exactly: $0) } }
    func number(_ name: String) -> Double? { request[name]?.numberValue }
    func texts(_ name: String) -> [String] { request[name]?.arrayValue?.compactMap(\.stringValue) ?? [] }
}

/// The answer to one request: zero or more objects, then done or an error. Any thread; never blocks.
///
/// A reader that does not keep up loses nothing of an ordinary answer and, on an endless one, is cut off: `send`
/// returns false once the reader is gone or its queue is full, the answer ends with an error, and the sender forgets it.
public final class ControlReply: Sendable {
    public enum Item: Sendable {
        case object(JSONValue)
        /// Made when it is read, of what the node keeps anyway: a long answer occupies no memory of its own.
        case later(@Sendable () -> JSONValue)
        /// The closing object; nothing follows. There is always room for it.
        case end(JSONValue)
    }

    private struct State {
        var isEnded = false
        var isAbandoned = false
    }

    private let state = Lock<State>(State())
    /// Takes an item without blocking; false when it cannot.
    private let sink: @Sendable (Item) -> Bool

    public init(sink: @escaping @Sendable (Item) -> Bool) { self.sink = sink }

    /// The reader is gone; later items are dropped.
    public func abandon() { state.withLock { $0.isAbandoned = true } }

    public var isOpen: Bool { state.withLock { !$0.isEnded && !$0.isAbandoned } }

    @discardableResult
    public func send(_ object: JSONValue) -> Bool {
        take(.object(object))
    }

    /// Like `send`, for an object of a long answer.
    @discardableResult
    func send(_ make: @escaping @Sendable () -> JSONValue) -> Bool { take(.later(make)) }

    private func take(_ item: Item) -> Bool {
        guard isOpen else { return false }
        if sink(item) { return true }
        fail(ReplyQueue.fellBehind)
        return false
    }

    /// Ends the answer well. Only the first end counts.
    public func finish() { end(with: ["schema": "starling/done/1"]) }

    public func fail(_ error: NodeError) { end(with: error.json) }

    /// The only object and the end.
    public func answer(_ object: JSONValue) {
        send(object)
        finish()
    }

    private func end(with object: JSONValue) {
        let isFirst = state.withLock { state -> Bool in
            defer { state.isEnded = true }
            return !state.isEnded && !state.isAbandoned
        }
        guard isFirst else { return }
        _ = sink(.end(object))
    }
}
