import Glibc
import MeshTestKit

exit(SimulatorProgram.run(Array(CommandLine.arguments.dropFirst())))
