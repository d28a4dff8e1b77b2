import Foundation
import MeshBase

@testable import MeshCrypto

/// Reads the published answers in `Tests/Vectors`.
enum Vectors {
    static func load<Content: Decodable>(_ path: String, as type: Content.Type) throws -> Content {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: tests.appending(path: "Vectors").appending(path: path))
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(type, from: data)
    }
}

/// A byte string written in hexadecimal.
struct Hex: Decodable, Sendable {
    let bytes: [UInt8]

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let bytes = Hexadecimal.decode(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not hexadecimal")
        }
        self.bytes = bytes
    }

    var secret: SecretBytes { SecretBytes(copying: bytes) }
}

/// `count` bytes that differ from each other, for inputs whose content does not matter.
func sampleBytes(_ count: Int, from start: UInt8 = 0) -> [UInt8] {
    (0..<count).map { start &+ UInt8(truncatingIfNeeded: $0) }
}

func sampleSecret(_ start: UInt8) -> SecretBytes { SecretBytes(copying: sampleBytes(32, from: start)) }
