import Testing
@testable import MeshProtocol
