import MeshBase
import MeshCrypto
import MeshSystem

/// A node's disk in memory. It outlives the node's process: `crash()` does to it what a power cut does, and a later
/// start finds what was durable. Faults are injected by plan.
///
/// Durable at return, as `NodeStorage` promises: settings, records, finished contents. Written and not yet durable:
/// chunks of partial contents, which a crash may lose or tear.
public final class SimulatedStorage: NodeStorage {
    /// What goes wrong from now on.
    public struct Faults: Hashable, Sendable {
        /// Probability that a writing call fails with EIO and changes nothing.
        public var writeFailure = 0.0
        /// Probability that a reading call of a chunk fails with EIO.
        public var readFailure = 0.0
        /// Every write of new contents meets a full disk.
        public var isFull = false
        /// Probability that a chunk not yet durable is lost (zeros) in a crash, and that it is torn (half of it).
        public var chunkLoss = 0.5
        public var chunkTearing = 0.25
        /// The process dies at the writing call after so many more: before it has any effect.
        public var writesUntilCrash: Int?

        public init() {}
    }

    private struct UnsyncedChunk: Hashable {
        var content: ContentID
        var index: UInt64
        var byteCount: Int
    }

    private struct State {
        var faults = Faults()
        var random: RandomStream
        var unsynced: [UnsyncedChunk] = []
        /// Files that exist on this node's host, by path.
        var files: [String: [UInt8]] = [:]
        var faultCount: UInt64 = 0
        var isClosed = false
        var onCrash: (@Sendable () -> Void)?
    }

    /// What is on the disk. Never closed: only this node's use of it ends.
    private let content = Lock(MemoryStorage())
    private var disk: MemoryStorage { content.withLock { $0 } }
    private let state: Lock<State>

    public init(seed: UInt64) { state = Lock(State(random: RandomStream(testSeed: seed))) }

    // MARK: Driving

    public var faults: Faults {
        get { state.withLock { $0.faults } }
        set { state.withLock { $0.faults = newValue } }
    }

    /// Faults that happened.
    public var faultCount: UInt64 { state.withLock { $0.faultCount } }

    /// Called when `Faults.writesUntilCrash` have been written: the process is to be killed before it does anything else.
    public func whenCrashing(_ body: (@Sendable () -> Void)?) { state.withLock { $0.onCrash = body } }

    /// Puts a file on the node's host, for `importFile`.
    public func putFile(_ bytes: [UInt8], at path: String) { state.withLock { $0.files[path] = bytes } }

    public func file(at path: String) -> [UInt8]? { state.withLock { $0.files[path] } }

    /// Makes this disk a copy of another one, as a restored backup or a copied directory is.
    public func restore(_ backup: SimulatedStorage) {
        let copy = backup.disk.copy()
        content.withLock { $0 = copy }
    }

    /// A copy of the disk as it is now.
    public func backup() -> SimulatedStorage {
        let backup = SimulatedStorage(seed: 0)
        backup.restore(self)
        return backup
    }

    /// The process, and the machine with it, stops here: chunks that were not durable may be lost or torn.
    public func crash() {
        let unsynced = state.withLock { state -> [(UnsyncedChunk, isTorn: Bool)] in
            state.isClosed = true
            defer { state.unsynced = [] }
            return state.unsynced.compactMap { chunk in
                let luck = state.random.unit()
                if luck < state.faults.chunkLoss { return (chunk, false) }
                return luck < state.faults.chunkLoss + state.faults.chunkTearing ? (chunk, true) : nil
            }
        }
        for (chunk, isTorn) in unsynced { damage(chunk, isTorn: isTorn) }
    }

    /// Flips a bit of a stored chunk: bit rot. `false` when there is no such content.
    @discardableResult
    public func rot(_ id: ContentID, chunk index: UInt64) -> Bool {
        do {
            var bytes = try disk.readChunk(id: id, index: index)
            guard !bytes.isEmpty else { return false }
            bytes[bytes.count / 2] ^= 1
            let wasComplete = try disk.contents().contains { $0.id == id && $0.isComplete }
            if wasComplete { try disk.reopenContent(id: id) }
            try disk.writeChunk(id: id, index: index, bytes: bytes)
            if wasComplete { try disk.finishContent(id: id) }
            return true
        } catch {
            return false
        }
    }

    private func damage(_ chunk: UnsyncedChunk, isTorn: Bool) {
        do {
            var bytes = try disk.readChunk(id: chunk.content, index: chunk.index)
            for index in (isTorn ? bytes.count / 2 : 0)..<bytes.count { bytes[index] = 0 }
            try disk.writeChunk(id: chunk.content, index: chunk.index, bytes: bytes)
            state.withLock { $0.faultCount += 1 }
        } catch {
            // The content was finished or removed meanwhile: nothing of it was unsynced after all.
        }
    }

    /// A new process opens the disk.
    public func reopen() { state.withLock { $0.isClosed = false } }

    // MARK: Faults

    /// Counts down to the crash; true when it has come.
    private func isCrashing() -> Bool {
        let body = state.withLock { state -> (@Sendable () -> Void)? in
            guard let left = state.faults.writesUntilCrash else { return nil }
            state.faults.writesUntilCrash = left > 0 ? left - 1 : nil
            guard left <= 0 else { return nil }
            state.isClosed = true
            state.faultCount += 1
            return state.onCrash ?? {}
        }
        body?()
        return body != nil
    }

    private func writing() throws(StorageError) {
        if isCrashing() { throw .stopped }
        try state.withLock { (state: inout State) throws(StorageError) in
            guard !state.isClosed else { throw .stopped }
            guard state.random.unit() >= state.faults.writeFailure else {
                state.faultCount += 1
                throw .callFailed(call: "write", path: "simulated", errorNumber: 5)
            }
        }
    }

    private func growing(_ byteCount: UInt64) throws(StorageError) {
        try writing()
        try state.withLock { (state: inout State) throws(StorageError) in
            guard !state.faults.isFull else {
                state.faultCount += 1
                throw .noSpace(path: "simulated", needed: byteCount, available: 0)
            }
        }
    }

    private func reading() throws(StorageError) {
        guard state.withLock({ !$0.isClosed }) else { throw .stopped }
    }

    // MARK: Settings and records

    public func setting(_ name: String) throws(StorageError) -> [UInt8]? {
        try reading()
        return try disk.setting(name)
    }

    public func setSetting(_ name: String, _ value: [UInt8]) throws(StorageError) {
        try writing()
        try disk.setSetting(name, value)
    }

    public func records() throws(StorageError) -> [StoredRecord] {
        try reading()
        return try disk.records()
    }

    public func addRecords(_ records: [StoredRecord]) throws(StorageError) {
        try writing()
        try disk.addRecords(records)
    }

    // MARK: Contents

    public func contents() throws(StorageError) -> [StoredContent] {
        try reading()
        return try disk.contents()
    }

    public func importFile(
        path: String, key: Bytes32, byteLimit: UInt64, progress: (UInt64, UInt64) -> Void
    ) throws(StorageError) -> ImportedContent {
        guard let bytes = file(at: path) else { throw .notFound(path: path) }
        let count = UInt64(bytes.count)
        guard count <= byteLimit else { throw .tooLarge(path: path, byteCount: count, limit: byteLimit) }
        try growing(count)
        progress(count, count)
        return try disk.importBytes(bytes, key: key)
    }

    public func beginContent(id: ContentID, byteCount: UInt64, leaves: [Bytes32]) throws(StorageError) {
        try growing(byteCount)
        try disk.beginContent(id: id, byteCount: byteCount, leaves: leaves)
    }

    public func verifyPartial(id: ContentID, key: Bytes32) throws(StorageError) -> [Bool] {
        try reading()
        return try disk.verifyPartial(id: id, key: key)
    }

    public func writeChunk(id: ContentID, index: UInt64, bytes: [UInt8]) throws(StorageError) {
        try growing(UInt64(bytes.count))
        try disk.writeChunk(id: id, index: index, bytes: bytes)
        state.withLock { $0.unsynced.append(UnsyncedChunk(content: id, index: index, byteCount: bytes.count)) }
    }

    public func readChunk(id: ContentID, index: UInt64) throws(StorageError) -> [UInt8] {
        try state.withLock { (state: inout State) throws(StorageError) in
            guard !state.isClosed else { throw .stopped }
            guard state.random.unit() >= state.faults.readFailure else {
                state.faultCount += 1
                throw .callFailed(call: "read", path: "simulated", errorNumber: 5)
            }
        }
        return try disk.readChunk(id: id, index: index)
    }

    public func finishContent(id: ContentID) throws(StorageError) {
        try writing()
        try disk.finishContent(id: id)
        state.withLock { $0.unsynced.removeAll { $0.content == id } }
    }

    public func reopenContent(id: ContentID) throws(StorageError) {
        try writing()
        try disk.reopenContent(id: id)
    }

    public func removeContent(id: ContentID) throws(StorageError) {
        try writing()
        try disk.removeContent(id: id)
    }

    /// Into this node's simulated files, not onto the real disk.
    public func exportContent(
        id: ContentID, toDirectory directory: String, name: String, key: Bytes32, overwrite: Bool
    ) throws(StorageError) -> ExportResult {
        try reading()
        guard let content = try disk.contents().first(where: { $0.id == id }) else { throw .unknownContent(id) }
        guard content.isComplete else { throw .incompleteContent(id) }
        guard try !disk.verifyPartial(id: id, key: key).contains(false) else { throw .corrupt(path: "simulated") }
        var bytes: [UInt8] = []
        for index in content.leaves.indices { bytes += try readChunk(id: id, index: UInt64(index)) }
        let path = "\(directory)/\(name)"
        let earlier = file(at: path)
        if let earlier, earlier != bytes, !overwrite { throw .exists(path: path) }
        putFile(bytes, at: path)
        let outcome: ExportResult.Outcome = earlier == nil ? .written : earlier == bytes ? .alreadyThere : .replaced
        return ExportResult(path: path, outcome: outcome, nameChange: nil)
    }

    public func usage() throws(StorageError) -> StorageUsage {
        try reading()
        return try disk.usage()
    }

    public func interrupt() {}

    public func close() { state.withLock { $0.isClosed = true } }
}
