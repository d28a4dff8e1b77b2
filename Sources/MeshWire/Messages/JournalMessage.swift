import MeshBase

/// Limits of the attachments' messages. Part of the specification.
public enum JournalLimits {
    /// Leaves of one hash page, and of the list that a manifest may hold.
    public static let leavesPerPage = 4_096
    /// Chunks of one content: what a bitfield of 128 KiB names.
    public static let maximumChunkCount = 1 << 20
    /// Bytes of one content: 64 GiB.
    public static let maximumContentBytes = UInt64(maximumChunkCount) * UInt64(WireLimits.chunkBytes)
    /// Contents in one announcement or question.
    public static let maximumContentsPerMessage = 1_024
    /// Ranges in one announcement's entry.
    public static let maximumRangesPerEntry = 4_096
    /// Chunks in one request, cancellation or refusal.
    public static let maximumChunksPerRequest = 64
}

/// A run of chunks, never empty.
public struct ChunkRange: Hashable, Sendable {
    public var first: UInt32
    public var count: UInt32

    public init(first: UInt32, count: UInt32) {
        self.first = first
        self.count = count
    }
}

/// What a peer says it holds of one content.
///
/// Within one generation entries only add, so they may arrive in any order and more than once. A higher generation
/// takes back everything said before: a content was dropped, or found damaged.
public struct HaveEntry: Hashable, Sendable {
    public enum Chunks: Hashable, Sendable {
        case complete
        /// Bit `i % 8` of byte `i / 8` is chunk `i`.
        case bitfield([UInt8])
        /// Chunks beside those said before; none at all only opens the generation.
        case ranges([ChunkRange])
    }

    public var content: ContentID
    public var generation: UInt32
    public var chunks: Chunks

    public init(content: ContentID, generation: UInt32, chunks: Chunks) {
        self.content = content
        self.generation = generation
        self.chunks = chunks
    }
}

/// What two journals say to each other. Every message is idempotent: links deliver unordered and sometimes twice.
///
/// Layout: `kind u8`, then the fields in the order given here; contents are 32 bytes, chunk indices u32, counts u16.
public enum JournalMessage: Hashable, Sendable {
    /// Kind 1: `count u16 | entries`; an entry is `content | generation u32 | form u8 | …` with form 1 complete,
    /// 2 `byte count u32 | bitfield`, 3 `count u16 | (first u32 | count u32)…`.
    case have([HaveEntry])
    /// Kind 2: `content`. Answered by `manifest` or `notHere`.
    case wantManifest(ContentID)
    /// Kind 3: `content | byte count u64 | count u16 | hashes`: all leaves when they fit one page, else the page roots.
    case manifest(ContentID, byteCount: UInt64, hashes: [Bytes32])
    /// Kind 4: `content | page u32`. Answered by `page` or `notHere`.
    case wantPage(ContentID, page: UInt32)
    /// Kind 5: `content | page u32 | count u16 | leaves`.
    case page(ContentID, page: UInt32, leaves: [Bytes32])
    /// Kind 6: `content | count u16 | chunk indices`, at least one.
    case request(ContentID, chunks: [UInt32])
    /// Kind 7: `content | chunk index u32 | the rest: 1…65,536 bytes`.
    case chunk(ContentID, index: UInt32, bytes: [UInt8])
    /// Kind 8: as `request`; no index at all cancels everything asked of this content.
    case cancel(ContentID, chunks: [UInt32])
    /// Kind 9: as `request`; no index at all says that nothing of this content is here.
    case notHere(ContentID, chunks: [UInt32])
    /// Kind 10: `count u16 | contents`: say what you have of these. Answered by `have`.
    case ask([ContentID])
}

extension JournalMessage: WireMessage {
    private static let haveKind: UInt8 = 1
    private static let wantManifestKind: UInt8 = 2
    private static let manifestKind: UInt8 = 3
    private static let wantPageKind: UInt8 = 4
    private static let pageKind: UInt8 = 5
    private static let requestKind: UInt8 = 6
    private static let chunkKind: UInt8 = 7
    private static let cancelKind: UInt8 = 8
    private static let notHereKind: UInt8 = 9
    private static let askKind: UInt8 = 10

    public func encode(into writer: inout ByteWriter) {
        switch self {
        case .have(let entries):
            writer.write(Self.haveKind)
            writer.write(UInt16(entries.count))
            for entry in entries { Self.encode(entry, into: &writer) }
        case .wantManifest(let content):
            writer.write(Self.wantManifestKind)
            writer.write(content.value)
        case .manifest(let content, let byteCount, let hashes):
            writer.write(Self.manifestKind)
            writer.write(content.value)
            writer.write(byteCount)
            Self.encode(hashes, into: &writer)
        case .wantPage(let content, let page):
            writer.write(Self.wantPageKind)
            writer.write(content.value)
            writer.write(page)
        case .page(let content, let page, let leaves):
            writer.write(Self.pageKind)
            writer.write(content.value)
            writer.write(page)
            Self.encode(leaves, into: &writer)
        case .request(let content, let chunks):
            Self.encode(Self.requestKind, content, chunks, into: &writer)
        case .chunk(let content, let index, let bytes):
            writer.write(Self.chunkKind)
            writer.write(content.value)
            writer.write(index)
            writer.write(bytes: bytes)
        case .cancel(let content, let chunks):
            Self.encode(Self.cancelKind, content, chunks, into: &writer)
        case .notHere(let content, let chunks):
            Self.encode(Self.notHereKind, content, chunks, into: &writer)
        case .ask(let contents):
            writer.write(Self.askKind)
            writer.write(UInt16(contents.count))
            for content in contents { writer.write(content.value) }
        }
    }

    private static func encode(_ entry: HaveEntry, into writer: inout ByteWriter) {
        writer.write(entry.content.value)
        writer.write(entry.generation)
        switch entry.chunks {
        case .complete:
            writer.write(UInt8(1))
        case .bitfield(let bytes):
            writer.write(UInt8(2))
            writer.write(UInt32(bytes.count))
            writer.write(bytes: bytes)
        case .ranges(let ranges):
            writer.write(UInt8(3))
            writer.write(UInt16(ranges.count))
            for range in ranges {
                writer.write(range.first)
                writer.write(range.count)
            }
        }
    }

    private static func encode(_ hashes: [Bytes32], into writer: inout ByteWriter) {
        writer.write(UInt16(hashes.count))
        for hash in hashes { writer.write(hash) }
    }

    private static func encode(_ kind: UInt8, _ content: ContentID, _ chunks: [UInt32], into writer: inout ByteWriter) {
        writer.write(kind)
        writer.write(content.value)
        writer.write(UInt16(chunks.count))
        for chunk in chunks { writer.write(chunk) }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        guard bytes.count <= WireLimits.maximumLinkMessageBytes else { throw .limitExceeded }
        var position = 0
        let kind = try bytes.readUInt8(&position)
        self = try Self.decode(kind, bytes, &position)
        try bytes.expectEnd(position)
    }

    private static func decode(_ kind: UInt8, _ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> Self {
        if kind == haveKind { return .have(try decodeEntries(bytes, &position)) }
        if kind == askKind { return .ask(try decodeContents(bytes, &position)) }
        guard (wantManifestKind...notHereKind).contains(kind) else { throw .unknownType }
        let content = ContentID(try bytes.readBytes32(&position))
        switch kind {
        case wantManifestKind:
            return .wantManifest(content)
        case manifestKind:
            let byteCount = try bytes.readUInt64(&position)
            guard byteCount <= JournalLimits.maximumContentBytes else { throw .limitExceeded }
            return .manifest(content, byteCount: byteCount, hashes: try decodeHashes(bytes, &position))
        case wantPageKind:
            return .wantPage(content, page: try bytes.readUInt32(&position))
        case pageKind:
            let page = try bytes.readUInt32(&position)
            return .page(content, page: page, leaves: try decodeHashes(bytes, &position))
        case requestKind:
            let chunks = try decodeChunks(bytes, &position)
            guard !chunks.isEmpty else { throw .invalidValue }
            return .request(content, chunks: chunks)
        case chunkKind:
            let index = try decodeChunkIndex(bytes, &position)
            let size = bytes.remaining(position)
            guard size > 0 else { throw .truncated }
            guard size <= WireLimits.chunkBytes else { throw .limitExceeded }
            return .chunk(content, index: index, bytes: try bytes.readBytes(&position, count: size))
        case cancelKind:
            return .cancel(content, chunks: try decodeChunks(bytes, &position))
        default:
            return .notHere(content, chunks: try decodeChunks(bytes, &position))
        }
    }

    private static func decodeChunkIndex(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> UInt32 {
        let index = try bytes.readUInt32(&position)
        guard index < UInt32(JournalLimits.maximumChunkCount) else { throw .limitExceeded }
        return index
    }

    /// The count is checked against the bytes that are there before anything is allocated (AB-19).
    private static func decodeCount(
        _ bytes: Span<UInt8>, _ position: inout Int, maximum: Int, itemBytes: Int
    ) throws(WireError) -> Int {
        let count = try bytes.readCount16(&position, maximum: maximum)
        guard bytes.remaining(position) >= count * itemBytes else { throw .truncated }
        return count
    }

    private static func decodeChunks(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [UInt32] {
        let count = try decodeCount(
            bytes, &position, maximum: JournalLimits.maximumChunksPerRequest, itemBytes: 4)
        var chunks: [UInt32] = []
        chunks.reserveCapacity(count)
        for _ in 0..<count { chunks.append(try decodeChunkIndex(bytes, &position)) }
        return chunks
    }

    private static func decodeHashes(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Bytes32] {
        let count = try decodeCount(bytes, &position, maximum: JournalLimits.leavesPerPage, itemBytes: 32)
        var hashes: [Bytes32] = []
        hashes.reserveCapacity(count)
        for _ in 0..<count { hashes.append(try bytes.readBytes32(&position)) }
        return hashes
    }

    private static func decodeContents(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [ContentID] {
        let count = try decodeCount(
            bytes, &position, maximum: JournalLimits.maximumContentsPerMessage, itemBytes: 32)
        var contents: [ContentID] = []
        contents.reserveCapacity(count)
        for _ in 0..<count { contents.append(ContentID(try bytes.readBytes32(&position))) }
        return contents
    }

    private static func decodeEntries(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [HaveEntry] {
        let count = try decodeCount(
            bytes, &position, maximum: JournalLimits.maximumContentsPerMessage, itemBytes: 37)
        var entries: [HaveEntry] = []
        entries.reserveCapacity(count)
        for _ in 0..<count { entries.append(try decodeEntry(bytes, &position)) }
        return entries
    }

    private static func decodeEntry(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> HaveEntry {
        let content = ContentID(try bytes.readBytes32(&position))
        let generation = try bytes.readUInt32(&position)
        let chunks: HaveEntry.Chunks
        switch try bytes.readUInt8(&position) {
        case 1: chunks = .complete
        case 2:
            let size = Int(try bytes.readUInt32(&position))
            guard size <= JournalLimits.maximumChunkCount / 8 else { throw .limitExceeded }
            chunks = .bitfield(try bytes.readBytes(&position, count: size))
        case 3: chunks = .ranges(try decodeRanges(bytes, &position))
        default: throw .invalidValue
        }
        return HaveEntry(content: content, generation: generation, chunks: chunks)
    }

    private static func decodeRanges(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [ChunkRange] {
        let count = try decodeCount(
            bytes, &position, maximum: JournalLimits.maximumRangesPerEntry, itemBytes: 8)
        var ranges: [ChunkRange] = []
        ranges.reserveCapacity(count)
        for _ in 0..<count {
            let first = try bytes.readUInt32(&position)
            let length = try bytes.readUInt32(&position)
            guard length > 0 else { throw .invalidValue }
            guard UInt64(first) + UInt64(length) <= UInt64(JournalLimits.maximumChunkCount) else {
                throw .limitExceeded
            }
            ranges.append(ChunkRange(first: first, count: length))
        }
        return ranges
    }
}
