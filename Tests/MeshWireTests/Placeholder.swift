import Testing
@testable import MeshWire
