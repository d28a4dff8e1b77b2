/// Numbers as people read them.
public enum Quantity {
    /// `4.1 MB`, `220 kB`, `17 B`: decimal units, two digits below ten.
    public static func bytes(_ count: Double) -> String {
        guard count.isFinite else { return "?" }
        let units = ["B", "kB", "MB", "GB", "TB", "PB"]
        var value = count
        var unit = 0
        while abs(value) >= 999.5, unit < units.count - 1 {
            value /= 1000
            unit += 1
        }
        return "\(unit == 0 || abs(value) >= 9.95 ? decimal(value, 0) : decimal(value, 1)) \(units[unit])"
    }

    /// `8 s`, `6 min`, `3 h`, `2 d`, `0.1 s`.
    public static func duration(seconds: Double) -> String {
        guard seconds.isFinite else { return "?" }
        let magnitude = abs(seconds)
        if magnitude < 0.0995 { return "\(decimal(seconds * 1000, magnitude < 0.00995 ? 1 : 0)) ms" }
        if magnitude < 9.95 { return "\(decimal(seconds, 1)) s" }
        if magnitude < 119.5 { return "\(decimal(seconds, 0)) s" }
        if magnitude < 7170 { return "\(decimal(seconds / 60, 0)) min" }
        if magnitude < 172_000 { return "\(decimal(seconds / 3600, 0)) h" }
        return "\(decimal(seconds / 86_400, 0)) d"
    }

    /// `0.3 ms`, `38 ms`, `1.2 s`, from microseconds.
    public static func roundTrip(microseconds: Double) -> String {
        guard microseconds.isFinite else { return "?" }
        if microseconds >= 999_500 { return duration(seconds: microseconds / 1e6) }
        let milliseconds = microseconds / 1000
        let digits = milliseconds < 0.0995 ? 3 : milliseconds < 0.995 ? 2 : milliseconds < 99.5 ? 1 : 0
        return "\(decimal(milliseconds, digits)) ms"
    }

    /// `+12.41 ±0.18 ms`, from microseconds.
    public static func offset(microseconds: Double, error: Double?) -> String {
        guard microseconds.isFinite else { return "?" }
        let sign = microseconds < 0 ? "" : "+"
        let value = sign + decimal(microseconds / 1000, 2)
        guard let error, error.isFinite else { return "\(value) ms" }
        return "\(value) ±\(decimal(error / 1000, 2)) ms"
    }

    /// `0 %`, `2 %`, `0.4 %`.
    public static func percent(_ value: Double) -> String {
        guard value.isFinite else { return "?" }
        return "\(decimal(value, value > 0.04 && value < 9.95 ? 1 : 0)) %"
    }

    /// `0:07`, `12:30`, `1:02:03`.
    public static func countdown(seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0, seconds < 1e9 else { return "?" }
        let whole = Int(seconds + 0.5)
        let pad = { (value: Int) in value < 10 ? "0\(value)" : "\(value)" }
        if whole < 3600 { return "\(whole / 60):\(pad(whole % 60))" }
        return "\(whole / 3600):\(pad(whole / 60 % 60)):\(pad(whole % 60))"
    }

    /// `value` with `digits` behind the point, rounded half away from zero. Beyond 10¹⁸ as Swift prints it.
    public static func decimal(_ value: Double, _ digits: Int) -> String {
        var scale = 1.0
        for _ in 0..<digits { scale *= 10 }
        guard value.isFinite, abs(value) * scale < 1e18 else { return value.description }
        // `rounded()` would need the C mathematics library, which pure targets do not link.
        let scaled = Int64(abs(value) * scale + 0.5)
        let sign = value < 0 && scaled != 0 ? "-" : ""
        guard digits > 0 else { return sign + String(scaled) }
        let divisor = Int64(scale)
        let fraction = String(scaled % divisor)
        return sign + String(scaled / divisor) + "." + String(repeating: "0", count: digits - fraction.count) + fraction
    }
}
