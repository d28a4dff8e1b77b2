import Glibc
import MeshSystem
import Testing

@Suite(.timeLimit(.minutes(10))) struct UnixSocketTests {
    /// Accepts one connection and hands it to `serve` on a thread of its own.
    private static func serveOne(
        _ listener: UnixListener, _ serve: @escaping @Sendable (UnixStream) -> Void
    ) throws -> SystemThread {
        try SystemThread(name: "test-server") {
            if let stream = try? listener.accept() { serve(stream) }
        }
    }

    @Test func `lines go both ways`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))
        let server = try Self.serveOne(listener) { stream in
            while let line = try? stream.readLine(maximumBytes: 100) { try? stream.write(line + [0x0a]) }
        }
        let client = try UnixStream(connectingTo: directory.file("a.sock"))

        try client.write(line: "one")
        try client.write([0x74, 0x77])
        try client.write(line: "o")

        #expect(try client.readLine(maximumBytes: 100) == Array("one".utf8))
        #expect(try client.readLine(maximumBytes: 100) == Array("two".utf8))
        #expect(client.peer?.pid == getpid())
        client.close()
        server.join()
    }

    @Test func `the socket file is private from the start and removed at the end`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))

        #expect(TestFile.mode(directory.file("a.sock")) == 0o600)
        listener.close()
        #expect(TestFile.names(directory.path).isEmpty)
    }

    @Test func `closing from another thread wakes a blocked accept, read and write`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))
        let outcomes = Lock<[SystemError]>([])
        let server = try Self.serveOne(listener) { stream in
            do throws(SystemError) { while true { try stream.write(patternBytes(65_536)) } } catch {
                outcomes.withLock { $0.append(error) }
            }
        }
        let client = try UnixStream(connectingTo: directory.file("a.sock"))
        let reader = try SystemThread(name: "test-reader") {
            // Nothing is read, so that the server's write blocks; then a line that never comes.
            usleep(50_000)
            client.close()
            do throws(SystemError) { _ = try client.readLine(maximumBytes: 10) } catch {
                outcomes.withLock { $0.append(error) }
            }
        }
        server.join()
        reader.join()
        let accepting = try SystemThread(name: "test-accept") {
            do throws(SystemError) { _ = try listener.accept() } catch { outcomes.withLock { $0.append(error) } }
        }
        usleep(10_000)
        listener.close()
        accepting.join()

        #expect(outcomes.withLock { $0 } == [.closed, .closed, .closed])
    }

    @Test func `a line is limited, its limit included`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))
        let client = try UnixStream(connectingTo: directory.file("a.sock"))
        let stream = try listener.accept()

        try client.write(line: "12345678")
        try client.write(line: "123456789")

        #expect(try stream.readLine(maximumBytes: 8) == Array("12345678".utf8))
        #expect(throws: SystemError.lineTooLong(limit: 8)) { try stream.readLine(maximumBytes: 8) }
    }

    @Test func `an endless line is refused before it is kept`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))
        let client = try UnixStream(connectingTo: directory.file("a.sock"))
        let stream = try listener.accept()

        try client.write([UInt8](repeating: 0x61, count: 100_000))

        #expect(throws: SystemError.lineTooLong(limit: 1000)) { try stream.readLine(maximumBytes: 1000) }
    }

    @Test func `the last line needs no line feed`() throws {
        let directory = TemporaryDirectory()
        let listener = try UnixListener(path: directory.file("a.sock"))
        let client = try UnixStream(connectingTo: directory.file("a.sock"))
        let stream = try listener.accept()

        try client.write(Array("one\ntail".utf8))
        client.close()

        #expect(try stream.readLine(maximumBytes: 100) == Array("one".utf8))
        #expect(try stream.readLine(maximumBytes: 100) == Array("tail".utf8))
        #expect(try stream.readLine(maximumBytes: 100) == nil)
    }

    @Test func `CLI-07 a path that is too long is an error with its length and the limit`() throws {
        let directory = TemporaryDirectory()
        let path = directory.path + "/" + String(repeating: "d", count: 150) + "/a.sock"

        let error = #expect(throws: SystemError.self) { try UnixListener(path: path) }

        #expect(error == .socketPathTooLong(path: path, byteCount: path.utf8.count, limit: 107))
        #expect(error?.message.contains("107") == true)
        #expect(error?.hint != nil)
        #expect(throws: SystemError.self) { try UnixStream(connectingTo: path) }
    }

    @Test func `CLI-07 a path of exactly the limit works`() throws {
        let directory = TemporaryDirectory()
        let path = directory.path + "/" + String(repeating: "d", count: 107 - directory.path.utf8.count - 1)

        #expect(path.utf8.count == SocketPath.limit)
        #expect(throws: Never.self) { try UnixListener(path: path).close() }
    }

    @Test func `CLI-08 a socket left by a crash is replaced`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("a.sock")
        try Self.leaveStaleSocket(path)
        #expect(throws: SystemError.socketAbsent(path: path)) { try UnixStream(connectingTo: path) }

        let listener = try UnixListener(path: path)

        _ = try UnixStream(connectingTo: path)
        listener.close()
    }

    /// What a killed process leaves: bound, and nobody there.
    private static func leaveStaleSocket(_ path: String) throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { bytes in unsafe bytes.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = unsafe withUnsafeBytes(of: &address) { bytes in
            unsafe bind(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), size)
        }
        try #require(result == 0)
        close(descriptor)
    }

    @Test func `CLI-08 a live instance is respected`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("a.sock")
        let listener = try UnixListener(path: path)

        #expect(throws: SystemError.socketInUse(path: path)) { try UnixListener(path: path) }

        _ = try UnixStream(connectingTo: path)
        listener.close()
    }

    @Test func `CLI-08 a foreign socket and a file that is no socket are left alone`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("a.sock")
        TestFile.write([1], to: path)
        #expect(throws: SystemError.socketForeign(path: path)) { try UnixListener(path: path) }
        #expect(TestFile.read(path) == [1])
        unsafe unlink(path)
        guard geteuid() == 0 else { return }

        try Self.leaveStaleSocket(path)
        unsafe chown(path, 12_345, 12_345)
        #expect(throws: SystemError.socketForeign(path: path)) { try UnixListener(path: path) }
        #expect(TestFile.names(directory.path) == ["a.sock"])
    }

    @Test func `a closed listener does not remove its successor's file`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("a.sock")
        let first = try UnixListener(path: path)
        unsafe unlink(path)
        let second = try UnixListener(path: path)

        first.close()

        #expect(TestFile.names(directory.path) == ["a.sock"])
        #expect(throws: Never.self) { try UnixStream(connectingTo: path) }
        second.close()
        #expect(TestFile.names(directory.path).isEmpty)
    }
}
