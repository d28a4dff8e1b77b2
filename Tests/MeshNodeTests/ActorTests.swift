import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import Testing

@testable import MeshNode

@Suite(.timeLimit(.minutes(10))) struct ActorTests {
    private let now = HostTime(nanoseconds: 5_000_000_000)
    private let identity = NodeIdentity(
        signing: SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: 3, count: 32))),
        incarnation: Incarnation(7))
    private var peer: PeerID { PeerID(Bytes32([UInt8](repeating: 9, count: 32)) ?? .zero) }

    @Test func `bytes that do not decode and facts that are refused are counted apart, and end nothing`() async throws {
        let loop = try EventLoop(clock: MonotonicClock())
        try loop.start()
        defer { loop.stop() }
        let random = RandomStream(testSeed: 1)
        let coordinator = Coordinator(
            machine: CoordinatorStateMachine(
                identity: identity, configuration: CoordinatorConfiguration(), random: random),
            executor: loop)
        let session = Session(
            machine: SessionStateMachine(
                identity: identity, name: "ana", configuration: SessionConfiguration(), random: random),
            executor: loop)

        _ = await coordinator.perform(
            [.message([0x7f, 1], from: peer), .command(.linkUp(peer)), .message([], from: peer)], at: now)
        _ = await session.perform(
            [.command(.createInvite(expiresAfter: nil, token: CommandToken(1)))], at: now)

        #expect(await coordinator.statistics.malformedMessages == 2)
        #expect(await coordinator.statistics.refusedCommands == 0)
        #expect(await session.statistics.refusedCommands == 1)
    }
}
