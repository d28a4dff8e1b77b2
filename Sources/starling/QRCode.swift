import CQRencode
import MeshBase
import MeshConsole

/// A QR code on standard error, where it does not disturb what reads the invite.
enum QRCode {
    static func print(_ text: String, _ printer: Printer) {
        guard let modules = modules(of: text) else {
            printer.talk("the invite is too long for a QR code")
            return
        }
        StandardStream.talk(QRText.lines(modules: modules, style: printer.errorRendering.style))
    }

    /// Rows of modules, true is dark; `nil` when no version is large enough.
    private static func modules(of text: String) -> [[Bool]]? {
        guard let code = unsafe QRcode_encodeString(text, 0, QR_ECLEVEL_L, QR_MODE_8, 1) else { return nil }
        defer { unsafe QRcode_free(code) }
        let width = unsafe Int(code.pointee.width)
        return (0..<width).map { row in
            (0..<width).map { column in
                // The lowest bit is the module's colour, the others say what it is for.
                unsafe code.pointee.data[row * width + column] & 1 == 1
            }
        }
    }
}
