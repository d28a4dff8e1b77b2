import Foundation
import MeshBase

/// Reads the shared vectors in `Tests/Vectors`.
enum LinkVectors {
    static func load(_ path: String) throws -> JSONValue {
        let tests = URL(filePath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: tests.appending(path: "Vectors").appending(path: path))
        return try JSONValue.parse(Array(data))
    }
}
