import Testing
@testable import MeshSystem
