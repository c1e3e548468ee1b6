// SPDX-License-Identifier: GPL-2.0-only
#include "bounds.hpp"
#include "scenario.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace bbrgym
{

namespace
{

using Json = nlohmann::json;

/** The bound says which unit a time has. */
int64_t
Nanoseconds(double time, const Bound& bound)
{
    return bound.unit == "ms" ? NanosecondsOfMs(time) : NanosecondsOfS(time);
}

/** One JSON object with every known key, perhaps an optional one, and nothing else. */
class Object
{
  public:
    Object(const Json& json, std::string path, const std::set<std::string>& known, const std::string& optional = "")
        : m_json(json),
          m_path(std::move(path))
    {
        if (!json.is_object())
        {
            throw ScenarioError(m_path, std::string("is ") + json.type_name() + ", expected an object");
        }
        for (const auto& [key, value] : json.items())
        {
            if (!known.contains(key) && key != optional)
            {
                throw ScenarioError(Path(key), "unknown field, allowed are " + List(known));
            }
        }
        for (const auto& key : known)
        {
            if (!json.contains(key))
            {
                throw ScenarioError(Path(key), "is missing");
            }
        }
    }

    const Json& operator[](const char* key) const { return m_json.at(key); }

    bool Has(const char* key) const { return m_json.contains(key); }
    bool IsNull(const char* key) const { return m_json.at(key).is_null(); }

    std::string Path(const std::string& key) const { return m_path.empty() ? key : m_path + "." + key; }

    /** A number from `low` to `high`, or above `low` only if `above_low`. */
    double Number(const char* key, double low, double high, bool above_low = false) const
    {
        const Json& value = m_json.at(key);
        if (!value.is_number())
        {
            throw ScenarioError(Path(key), "is " + value.dump() + ", expected a number");
        }
        const double number = value.get<double>();
        if (!(number <= high && (above_low ? number > low : number >= low)))
        {
            throw ScenarioError(Path(key),
                                "is " + value.dump() + ", expected a number " + (above_low ? "> " : ">= ") +
                                    Json(low).dump() + " and <= " + Json(high).dump());
        }
        return number;
    }

    double Number(const char* key, const Bound& bound) const { return Number(key, bound.low, bound.high); }

    int64_t TimeNs(const char* key, const Bound& bound) const { return Nanoseconds(Number(key, bound), bound); }

    uint64_t Count(const char* key, const Bound& bound) const { return Whole(key, Number(key, bound)); }

    uint64_t CountAbove(const char* key, uint64_t low, const Bound& bound) const
    {
        return Whole(key, Number(key, static_cast<double>(low), bound.high, true));
    }

    double RateBps(const char* key) const { return Number(key, bounds::rate_mbps) * 1e6; }

    double Probability(const char* key) const { return Number(key, bounds::probability); }

    bool Flag(const char* key) const
    {
        if (!m_json.at(key).is_boolean())
        {
            throw ScenarioError(Path(key), "is " + m_json.at(key).dump() + ", expected true or false");
        }
        return m_json.at(key).get<bool>();
    }

    std::string Text(const char* key) const
    {
        if (!m_json.at(key).is_string() || m_json.at(key).get_ref<const std::string&>().empty())
        {
            throw ScenarioError(Path(key), "is " + m_json.at(key).dump() + ", expected a text");
        }
        return m_json.at(key).get<std::string>();
    }

    std::string Choice(const char* key, const std::set<std::string>& allowed) const
    {
        const Json& value = m_json.at(key);
        if (!value.is_string() || !allowed.contains(value.get<std::string>()))
        {
            throw ScenarioError(Path(key), "is " + value.dump() + ", expected one of " + List(allowed));
        }
        return value.get<std::string>();
    }

    std::vector<double> Numbers(const char* key, const Bound& bound) const
    {
        std::vector<double> numbers;
        for (const Json& value : Array(key))
        {
            if (!value.is_number() || !(value.get<double>() >= bound.low && value.get<double>() <= bound.high))
            {
                throw ScenarioError(Path(key) + "[" + std::to_string(numbers.size()) + "]",
                                    "is " + value.dump() + ", expected a number >= " + Json(bound.low).dump() + " and <= " +
                                        Json(bound.high).dump());
            }
            numbers.push_back(value.get<double>());
        }
        return numbers;
    }

    const Json& Array(const char* key) const
    {
        if (!m_json.at(key).is_array())
        {
            throw ScenarioError(Path(key), "is " + m_json.at(key).dump() + ", expected a list");
        }
        return m_json.at(key);
    }

    static std::string List(const std::set<std::string>& names)
    {
        std::string text;
        for (const auto& name : names)
        {
            text += (text.empty() ? "" : ", ") + name;
        }
        return text;
    }

  private:
    uint64_t Whole(const char* key, double number) const
    {
        if (number != std::floor(number))
        {
            throw ScenarioError(Path(key), "is " + m_json.at(key).dump() + ", expected a whole number");
        }
        return static_cast<uint64_t>(number);
    }

    const Json& m_json;
    std::string m_path;
};

void
RequireCount(const Json& list, const std::string& path, const Bound& bound)
{
    const auto size = static_cast<double>(list.size());
    if (size < bound.low || size > bound.high)
    {
        throw ScenarioError(path,
                            "has " + std::to_string(list.size()) + " entries, expected " + std::to_string(std::llround(bound.low)) +
                                " to " + std::to_string(std::llround(bound.high)));
    }
}

/** The `kind` of an object whose other fields depend on it. */
std::string
Kind(const Json& json, const std::string& path, const std::set<std::string>& allowed)
{
    if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string() ||
        !allowed.contains(json["kind"].get<std::string>()))
    {
        const std::string is = json.is_object() && json.contains("kind") ? json["kind"].dump() : "missing";
        throw ScenarioError(path + ".kind", "is " + is + ", expected one of " + Object::List(allowed));
    }
    return json["kind"].get<std::string>();
}

CoDel
ParseCoDel(const Json& json)
{
    const Object codel(json, "link.queue.codel", {"target_ms", "interval_ms"});
    return {codel.TimeNs("target_ms", bounds::codel_ms), codel.TimeNs("interval_ms", bounds::codel_ms)};
}

Queue
ParseQueue(const Json& json)
{
    const Object object(json,
                        "link.queue",
                        {"kind",
                         "size_bytes",
                         "size_packets",
                         "red",
                         "codel",
                         "quantum_bytes",
                         "ecn",
                         "ecn_threshold_bytes",
                         "ecn_threshold_packets",
                         "ecn_threshold_ms"});
    const std::string kind = Kind(json, "link.queue", {"droptail", "red", "codel", "fq_codel"});
    Queue queue;
    if (object.IsNull("size_bytes") == object.IsNull("size_packets"))
    {
        throw ScenarioError("link.queue", "expected exactly one of size_bytes and size_packets");
    }
    if (!object.IsNull("size_bytes"))
    {
        queue.size_bytes = object.Count("size_bytes", bounds::bytes);
    }
    else
    {
        queue.size_packets = object.Count("size_packets", bounds::queue_packets);
    }
    if (kind == "red")
    {
        const Object red(object["red"], "link.queue.red", {"min_bytes", "max_bytes", "max_probability", "gaps"});
        Red parsed;
        parsed.min_bytes = red.Count("min_bytes", bounds::bytes);
        parsed.max_bytes = red.CountAbove("max_bytes", parsed.min_bytes, bounds::bytes);
        parsed.max_probability = red.Number("max_probability", bounds::red_probability);
        parsed.gaps = red.Choice("gaps", {"ns3", "linux"}) == "linux" ? Red::Gaps::LINUX : Red::Gaps::NS3;
        queue.discipline = parsed;
    }
    else if (kind == "codel")
    {
        queue.discipline = ParseCoDel(object["codel"]);
    }
    else if (kind == "fq_codel")
    {
        queue.discipline = FqCoDel{ParseCoDel(object["codel"]), object.Count("quantum_bytes", bounds::quantum_bytes)};
    }
    queue.ecn = object.Flag("ecn");
    if (!object.IsNull("ecn_threshold_bytes"))
    {
        queue.ecn_threshold_bytes = object.Count("ecn_threshold_bytes", bounds::bytes);
    }
    if (!object.IsNull("ecn_threshold_packets"))
    {
        queue.ecn_threshold_packets = object.Count("ecn_threshold_packets", bounds::queue_packets);
    }
    if (!object.IsNull("ecn_threshold_ms"))
    {
        queue.ecn_threshold_ns = object.TimeNs("ecn_threshold_ms", bounds::codel_ms);
    }
    return queue;
}

std::optional<Policer>
ParsePolicer(const Json& json)
{
    if (json.is_null())
    {
        return std::nullopt;
    }
    const Object object(json, "link.policer", {"rate_mbps", "burst_bytes"});
    return Policer{object.RateBps("rate_mbps"), object.Count("burst_bytes", bounds::bytes)};
}

std::optional<Jitter>
ParseJitter(const Json& json)
{
    if (json.is_null())
    {
        return std::nullopt;
    }
    const Object object(json, "link.jitter", {"share", "delay_ms", "reorder"});
    return Jitter{object.Probability("share"), object.TimeNs("delay_ms", bounds::delay_ms), object.Flag("reorder")};
}

Acks
ParseAcks(const Json& json)
{
    const std::string kind = Kind(json, "link.acks", {"at_once", "slots", "bursts"});
    if (kind == "slots")
    {
        return AckSlots{Object(json, "link.acks", {"kind", "every_ms"}).TimeNs("every_ms", bounds::ack_hold_ms)};
    }
    if (kind == "bursts")
    {
        const Object bursts(json, "link.acks", {"kind", "packets", "timeout_ms"});
        return AckBursts{bursts.Count("packets", bounds::ack_burst), bursts.TimeNs("timeout_ms", bounds::ack_hold_ms)};
    }
    const Object at_once(json, "link.acks", {"kind"});
    return AcksAtOnce{};
}

Loss
ParseLoss(const Json& json)
{
    const std::string kind = Kind(json, "link.loss", {"none", "bernoulli", "gilbert_elliott"});
    if (kind == "gilbert_elliott")
    {
        const Object loss(json, "link.loss", {"kind", "good_to_bad", "bad_to_good", "loss_good", "loss_bad", "clock"});
        using Clock = GilbertElliott::Clock;
        return GilbertElliott{loss.Probability("good_to_bad"),
                              loss.Probability("bad_to_good"),
                              loss.Probability("loss_good"),
                              loss.Probability("loss_bad"),
                              loss.Choice("clock", {"packet", "time"}) == "time" ? Clock::TIME : Clock::PACKET};
    }
    if (kind == "bernoulli")
    {
        return Bernoulli{Object(json, "link.loss", {"kind", "rate"}).Probability("rate")};
    }
    const Object none(json, "link.loss", {"kind"});
    return Bernoulli{0};
}

Trace
ParseTrace(const Json& json)
{
    const Object object(json, "link.trace", {"times_ms", "period_ms", "opportunity_bytes"}, "counts");
    Trace trace;
    trace.period_ns = object.TimeNs("period_ms", bounds::trace_period_ms);
    trace.opportunity_bytes = object.Count("opportunity_bytes", bounds::bytes);
    const Json& times = object.Array("times_ms");
    if (times.empty())
    {
        throw ScenarioError("link.trace.times_ms", "is empty, expected at least one time");
    }
    trace.times_ns.reserve(times.size());
    for (std::size_t i = 0; i < times.size(); ++i)
    {
        const double time_ms = times[i].is_number() ? times[i].get<double>() : -1;
        const bool is_time = time_ms >= 0 && time_ms <= bounds::trace_period_ms.high;
        const int64_t time_ns = is_time ? NanosecondsOfMs(time_ms) : -1;
        if (time_ns < (trace.times_ns.empty() ? 0 : trace.times_ns.back()) || time_ns > trace.period_ns)
        {
            throw ScenarioError("link.trace.times_ms[" + std::to_string(i) + "]",
                                "is " + times[i].dump() +
                                    ", expected a number, not below the one before and at most period_ms");
        }
        trace.times_ns.push_back(time_ns);
    }
    if (!object.Has("counts"))
    {
        return trace;
    }
    const Bound bound{"counts", 1, std::max(1.0, std::floor(bounds::bytes.high / static_cast<double>(trace.opportunity_bytes))), "count"};
    for (const double count : object.Numbers("counts", bound))
    {
        trace.counts.push_back(static_cast<uint64_t>(count));
    }
    if (trace.counts.size() != trace.times_ns.size())
    {
        throw ScenarioError("link.trace.counts",
                            "has " + std::to_string(trace.counts.size()) + " entries, expected one for each of " +
                                std::to_string(trace.times_ns.size()) + " times_ms");
    }
    return trace;
}

std::vector<LinkChange>
ParseChanges(const Json& json, const Link& link)
{
    RequireCount(json, "link.changes", bounds::changes);
    std::vector<LinkChange> changes;
    for (std::size_t i = 0; i < json.size(); ++i)
    {
        const std::string path = "link.changes[" + std::to_string(i) + "]";
        const Object object(json[i], path, {"at_s", "rate_mbps", "delay_ms", "loss_rate"});
        LinkChange change;
        change.at_ns = object.TimeNs("at_s", bounds::time_s);
        if (!changes.empty() && change.at_ns < changes.back().at_ns)
        {
            throw ScenarioError(path + ".at_s", "is " + object["at_s"].dump() + ", expected times in ascending order");
        }
        if (!object.IsNull("rate_mbps"))
        {
            if (link.trace)
            {
                throw ScenarioError(path + ".rate_mbps", "the link follows a trace, expected null");
            }
            change.rate_bps = object["rate_mbps"] == 0 ? 0 : object.RateBps("rate_mbps"); // 0: an outage
        }
        if (!object.IsNull("delay_ms"))
        {
            change.delay_ns = object.TimeNs("delay_ms", bounds::delay_ms);
        }
        if (!object.IsNull("loss_rate"))
        {
            if (std::holds_alternative<GilbertElliott>(link.loss))
            {
                throw ScenarioError(path + ".loss_rate", "the link's loss is gilbert_elliott, expected null");
            }
            change.loss_rate = object.Probability("loss_rate");
        }
        changes.push_back(change);
    }
    return changes;
}

uint32_t
ParseChoice(const Object& object, const char* key, const std::set<uint32_t>& allowed)
{
    const Json& value = object[key];
    if (!value.is_number_unsigned() || !allowed.contains(value.get<uint32_t>()))
    {
        throw ScenarioError(object.Path(key), "is " + value.dump() + ", expected one of " + Json(allowed).dump());
    }
    return value.get<uint32_t>();
}

/** The highest modulation and coding scheme; 802.11ac has no ninth for one or two streams on 20 MHz. */
uint32_t
HighestMcs(const WifiHop& hop)
{
    return hop.standard == "n" ? 7 : hop.standard == "ax" ? 11 : hop.width_mhz == 20 ? 8 : 9;
}

std::optional<LastHop>
ParseLastHop(const Json& json)
{
    if (json.is_null())
    {
        return std::nullopt;
    }
    const std::string path = "link.last_hop";
    if (Kind(json, path, {"wifi", "lte"}) == "lte")
    {
        const Object object(json, path, {"kind", "bandwidth_mhz", "layers", "distance_m", "queue_packets"});
        LteHop hop;
        hop.bandwidth_mhz = ParseChoice(object, "bandwidth_mhz", {5, 10, 15, 20});
        hop.layers = ParseChoice(object, "layers", {1, 2});
        hop.distance_m = object.Number("distance_m", bounds::hop_distance_m);
        hop.queue_packets = static_cast<uint32_t>(object.Count("queue_packets", bounds::queue_packets));
        return hop;
    }
    const Object object(json, path, {"kind", "standard", "width_mhz", "streams", "mcs", "distance_m", "queue_packets"});
    WifiHop hop;
    hop.standard = object.Text("standard");
    const std::set<std::string> standards = {"n", "ac", "ax"};
    if (!standards.contains(hop.standard))
    {
        throw ScenarioError(object.Path("standard"),
                            "is " + object["standard"].dump() + ", expected one of " + Object::List(standards));
    }
    hop.width_mhz = ParseChoice(object, "width_mhz", hop.standard == "n" ? std::set<uint32_t>{20, 40} : std::set<uint32_t>{20, 40, 80});
    hop.streams = ParseChoice(object, "streams", {1, 2});
    if (!object.IsNull("mcs"))
    {
        hop.mcs = static_cast<uint32_t>(object.Count("mcs", Bound{"mcs", 0, static_cast<double>(HighestMcs(hop)), "count"}));
    }
    hop.distance_m = object.Number("distance_m", bounds::hop_distance_m);
    hop.queue_packets = static_cast<uint32_t>(object.Count("queue_packets", bounds::queue_packets));
    return hop;
}

Link
ParseLink(const Json& json)
{
    const Object object(json,
                        "link",
                        {"rate_mbps",
                         "trace",
                         "delay_ms",
                         "policer",
                         "queue",
                         "loss",
                         "jitter",
                         "acks",
                         "changes",
                         "last_hop"});
    Link link;
    if (object.IsNull("rate_mbps") == object.IsNull("trace"))
    {
        throw ScenarioError("link", "expected exactly one of rate_mbps and trace");
    }
    if (object.IsNull("trace"))
    {
        link.rate_bps = object.RateBps("rate_mbps");
    }
    else
    {
        link.trace = ParseTrace(object["trace"]);
    }
    link.delay_ns = object.TimeNs("delay_ms", bounds::delay_ms);
    link.policer = ParsePolicer(object["policer"]);
    link.queue = ParseQueue(object["queue"]);
    link.loss = ParseLoss(object["loss"]);
    link.jitter = ParseJitter(object["jitter"]);
    link.acks = ParseAcks(object["acks"]);
    link.changes = ParseChanges(object.Array("changes"), link);
    link.last_hop = ParseLastHop(object["last_hop"]);
    return link;
}

Transfer
ParseTransfer(const Json& json, const std::string& path)
{
    const Object app(json, path, {"kind", "size_bytes", "weights", "exponential", "within_s"});
    Transfer transfer;
    transfer.size_bytes = app.Numbers("size_bytes", bounds::bytes);
    transfer.weights = app.Numbers("weights", bounds::weight);
    if (transfer.size_bytes.empty() || transfer.weights.size() != transfer.size_bytes.size())
    {
        throw ScenarioError(app.Path("weights"),
                            "has " + std::to_string(transfer.weights.size()) +
                                " entries, expected one for each of at least one size_bytes");
    }
    transfer.exponential = app.Flag("exponential");
    transfer.within_ns = app.TimeNs("within_s", bounds::burst_s);
    return transfer;
}

App
ParseApp(const Json& json, const std::string& path, uint32_t mss_bytes)
{
    const std::string kind = Kind(json, path, {"bulk", "cbr", "onoff", "flows"});
    if (kind == "cbr")
    {
        return Cbr{Object(json, path, {"kind", "rate_mbps"}).RateBps("rate_mbps")};
    }
    if (kind == "onoff")
    {
        const Object app(json, path, {"kind", "rate_mbps", "on_s", "off_s", "random"});
        return OnOff{app.RateBps("rate_mbps"),
                     app.TimeNs("on_s", bounds::burst_s),
                     app.TimeNs("off_s", bounds::burst_s),
                     app.Flag("random")};
    }
    const Object bulk(json, path, {"kind", "size_bytes"});
    if (bulk.IsNull("size_bytes"))
    {
        return Bulk{};
    }
    return Bulk{(bulk.Count("size_bytes", bounds::bytes) + mss_bytes - 1) / mss_bytes};
}

Role
ParseRole(const Object& object)
{
    const std::set<std::string> roles = {"tuned", "fixed", "background"};
    const std::string role = object.Text("role");
    if (!roles.contains(role))
    {
        throw ScenarioError(object.Path("role"), "is " + object["role"].dump() + ", expected one of " + Object::List(roles));
    }
    return role == "tuned" ? Role::TUNED : role == "fixed" ? Role::FIXED : Role::BACKGROUND;
}

/** The value of a fact as the table counts it: 0 or 1 of a flag, the index of a choice, a number, of a size either. */
int64_t
ParseFact(const Object& object, const StackFact& fact)
{
    const std::string key(fact.name);
    const bool is_named = fact.kind == StackFactKind::SIZE && object[key.c_str()].is_string();
    switch (is_named ? StackFactKind::CHOICE : fact.kind)
    {
    case StackFactKind::FLAG:
        return object.Flag(key.c_str());
    case StackFactKind::NUMBER:
    case StackFactKind::SIZE:
        return static_cast<int64_t>(
            object.Count(key.c_str(), {fact.name, static_cast<double>(fact.low), static_cast<double>(fact.high), fact.unit}));
    case StackFactKind::CHOICE:
        break;
    }
    const auto found = std::ranges::find(fact.choices, object.Text(key.c_str()));
    if (found == fact.choices.end())
    {
        const std::set<std::string> choices(fact.choices.begin(), fact.choices.end());
        throw ScenarioError(object.Path(key), "is " + object[key.c_str()].dump() + ", expected one of " + Object::List(choices));
    }
    const int64_t index = found - fact.choices.begin();
    return is_named ? -index : index;
}

Stack
ParseStack(const Json& json, const std::string& path)
{
    std::set<std::string> keys = {"preset"};
    for (const StackFact& fact : StackFacts())
    {
        keys.emplace(fact.name);
    }
    const Object object(json, path, keys);
    if (const std::string preset = object.Text("preset"); !FindStackPreset(preset))
    {
        const std::set<std::string> presets(STACK_PRESETS.begin(), STACK_PRESETS.end());
        throw ScenarioError(object.Path("preset"), "is " + object["preset"].dump() + ", expected one of " + Object::List(presets));
    }
    Stack stack;
    for (const StackFact& fact : StackFacts())
    {
        fact.set(stack, ParseFact(object, fact));
    }
    return stack;
}

Flow
ParseFlow(const Json& json, const std::string& path, double link_delay_ms, uint32_t mss_bytes)
{
    const Object object(json, path, {"name", "cc", "role", "rtt_ms", "start_s", "stop_s", "app", "stack", "tunables"});
    Flow flow;
    flow.name = object.Text("name");
    flow.cc = object.Text("cc");
    flow.role = ParseRole(object);
    const double shortest_ms = std::max(bounds::rtt_ms.low, 2 * link_delay_ms);
    flow.rtt_ns = NanosecondsOfMs(object.Number("rtt_ms", shortest_ms, bounds::rtt_ms.high));
    flow.start_ns = object.TimeNs("start_s", bounds::time_s);
    flow.stop_ns = object.TimeNs("stop_s", bounds::time_s);
    if (flow.stop_ns <= flow.start_ns)
    {
        throw ScenarioError(path + ".stop_s", "is " + object["stop_s"].dump() + ", expected a number > start_s");
    }
    if (const Json& app = object["app"]; app.is_object() && app.value("kind", Json()) == "flows")
    {
        flow.transfer = ParseTransfer(app, path + ".app");
        flow.transfer->earliest_ns = flow.start_ns;
        if (flow.start_ns + flow.transfer->within_ns > flow.stop_ns)
        {
            throw ScenarioError(path + ".app.within_s", "is " + app["within_s"].dump() + ", expected at most stop_s - start_s");
        }
    }
    else
    {
        flow.app = ParseApp(app, path + ".app", mss_bytes);
    }
    flow.stack = ParseStack(object["stack"], path + ".stack");
    const Json& tunables = object["tunables"];
    if (!tunables.is_object())
    {
        throw ScenarioError(path + ".tunables", "is " + tunables.dump() + ", expected an object");
    }
    for (const auto& [name, value] : tunables.items())
    {
        if (!value.is_number())
        {
            throw ScenarioError(path + ".tunables." + name, "is " + value.dump() + ", expected a number");
        }
        flow.tunables[name] = value.get<double>();
    }
    return flow;
}

Json
ParseJson(const std::string& text)
{
    try
    {
        return Json::parse(text);
    }
    catch (const Json::parse_error& error)
    {
        throw ScenarioError("", std::string("is not JSON: ") + error.what());
    }
}

} // namespace

Scenario
ParseScenario(const std::string& text)
{
    const Json json = ParseJson(text);
    const Object object(json, "", {"name", "duration_s", "warmup_s", "mss_bytes", "link", "flows"});
    Scenario scenario;
    scenario.name = object.Text("name");
    scenario.duration_ns = object.TimeNs("duration_s", bounds::duration_s);
    scenario.warmup_ns = object.TimeNs("warmup_s", bounds::time_s);
    if (scenario.warmup_ns >= scenario.duration_ns)
    {
        throw ScenarioError("warmup_s", "is " + object["warmup_s"].dump() + ", expected a number < duration_s");
    }
    scenario.mss_bytes = static_cast<uint32_t>(object.Count("mss_bytes", bounds::mss_bytes));
    scenario.link = ParseLink(object["link"]);
    const Json& flows = object.Array("flows");
    RequireCount(flows, "flows", bounds::flows);
    const double link_delay_ms = object["link"]["delay_ms"].get<double>();
    std::set<std::string> names;
    for (std::size_t i = 0; i < flows.size(); ++i)
    {
        const std::string path = "flows[" + std::to_string(i) + "]";
        scenario.flows.push_back(ParseFlow(flows[i], path, link_delay_ms, scenario.mss_bytes));
        if (!names.insert(scenario.flows.back().name).second)
        {
            throw ScenarioError(path + ".name", "is " + flows[i]["name"].dump() + " again, expected a name of its own");
        }
    }
    return scenario;
}

} // namespace bbrgym
