import Testing
@testable import MeshCrypto
