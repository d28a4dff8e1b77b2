import MeshWire
import Testing

@testable import MeshNode

@Suite struct MeshPoliciesTests {
    @Test func `what is not named stays as it is by default`() throws {
        #expect(try MeshPolicies(text: "") == .standard)
        let strict = try MeshPolicies(text: "end=creator,invite=creator")
        #expect(strict == MeshPolicies(invite: .creator, remove: .creatorAndAdmitter, end: .creator))
        #expect(try MeshPolicies(text: "remove=members").remove == .anyMember)
    }

    @Test(arguments: ["end", "end=", "end=nobody", "stop=creator", "invite=admitter", "end=creator;remove=creator"])
    func `a policy that is none is refused with those that are`(text: String) {
        #expect(throws: NodeError.self) { try MeshPolicies(text: text) }
    }
}
