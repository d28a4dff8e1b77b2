// swift-tools-version: 6.2
import PackageDescription

// The arrows of Docs/Architecture.md, readable on one screen. `MeshProtocol` and `MeshSystem` never see each
// other: that missing arrow is the architecture, and `Tools/test` builds with
// `--explicit-target-dependency-import-check error` so that the compiler keeps it.

let strict: [SwiftSetting] = [
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

func pure(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, resources: resources, swiftSettings: strict)
}

let package = Package(
    name: "starling",
    products: [
        .executable(name: "starling", targets: ["starling"]),
        .executable(name: "starling-benchmark", targets: ["starling-benchmark"]),
        .executable(name: "starling-simulator", targets: ["starling-simulator"]),
        .library(name: "MeshTestKit", targets: ["MeshTestKit"]),
    ],
    targets: [
        // C libraries from Debian, and our own C only for what Swift's Glibc module does not show.
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CQRencode", pkgConfig: "libqrencode", providers: [.apt(["libqrencode-dev"])]),
        .target(name: "CMeshSystem", cSettings: [.define("_GNU_SOURCE")]),

        // Pure: time, bytes and randomness come in as parameters.
        pure("MeshBase"),
        pure("MeshWire", ["MeshBase"]),
        pure("MeshCrypto", ["MeshBase", "CSodium"]),
        pure("MeshProtocol", ["MeshBase", "MeshWire", "MeshCrypto"]),

        // Input and output.
        pure("MeshSystem", ["MeshBase", "MeshCrypto", "CMeshSystem", "CSQLite"]),
        pure("MeshNode", ["MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol", "MeshSystem"]),
        pure("MeshConsole", ["MeshBase"]),
        pure("MeshTestKit", ["MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol", "MeshSystem", "MeshNode"]),
        .executableTarget(
            name: "starling", dependencies: ["MeshConsole", "MeshNode", "MeshSystem", "MeshBase", "CQRencode"],
            swiftSettings: strict),
        .executableTarget(
            name: "starling-benchmark",
            dependencies: ["MeshNode", "MeshProtocol", "MeshSystem", "MeshCrypto", "MeshWire", "MeshBase"],
            swiftSettings: strict),
        .executableTarget(name: "starling-simulator", dependencies: ["MeshTestKit"], swiftSettings: strict),

        // One test target per target, the same folders inside.
        tests("MeshBaseTests", ["MeshBase"]),
        tests("MeshWireTests", ["MeshWire", "MeshBase"]),
        tests("MeshCryptoTests", ["MeshCrypto", "MeshBase"]),
        tests("MeshProtocolTests", ["MeshProtocol", "MeshWire", "MeshCrypto", "MeshBase"]),
        tests("MeshSystemTests", ["MeshSystem", "MeshCrypto", "MeshBase"]),
        tests("MeshConsoleTests", ["MeshConsole", "MeshBase"]),
        tests("MeshNodeTests", ["MeshNode", "MeshProtocol", "MeshSystem", "MeshCrypto", "MeshBase"]),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "MeshTestKit", "MeshNode", "MeshProtocol", "MeshSystem", "MeshWire", "MeshCrypto", "MeshBase",
            ],
            exclude: ["Scenarios.txt"], swiftSettings: strict),
        tests("RepositoryTests", []),
        // Real processes of the built command.
        tests("ScenarioTests", ["starling"]),
    ],
    swiftLanguageModes: [.v6]
)
