import MeshBase

/// Consecutive datagrams that can leave with one system call: one destination, one size, the last one possibly shorter.
struct SendTrain: Equatable {
    /// Positions in the batch.
    var range: Range<Int>
    var byteCount: Int
    /// Bytes of each datagram but the last; 0 for a single datagram.
    var segment: Int

    /// The kernel's limits on a train.
    static let maximumSegments = 64
    static let maximumBytes = 65_000

    /// The longest train that starts at `start`. `segmenting` false: always a single datagram.
    static func next(in datagrams: [TransportDatagram], from start: Int, segmenting: Bool) -> SendTrain {
        let first = datagrams[start]
        let segment = first.bytes.count
        var train = SendTrain(range: start..<(start + 1), byteCount: segment, segment: 0)
        guard segmenting, segment > 0 else { return train }
        var position = start + 1
        while position < datagrams.count, position - start < maximumSegments {
            let datagram = datagrams[position]
            let count = datagram.bytes.count
            guard datagram.destination == first.destination, count <= segment, count > 0,
                train.byteCount + count <= maximumBytes
            else { break }
            position += 1
            train.byteCount += count
            if count < segment { break }
        }
        train.range = start..<position
        train.segment = train.range.count > 1 ? segment : 0
        return train
    }
}
