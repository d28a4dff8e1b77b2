import Testing
@testable import MeshConsole
