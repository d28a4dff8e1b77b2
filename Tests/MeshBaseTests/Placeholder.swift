import Testing
@testable import MeshBase
