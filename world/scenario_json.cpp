// SPDX-License-Identifier: GPL-2.0-only
//
// A scenario is read from what the package's Scenario writes, which has checked it. So each field is looked at by
// itself, that it is there, of its type and within its bounds: whoever edits such a file is told the place, the value
// and what is allowed.
#include "bounds.hpp"
#include "scenario.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <type_traits>
#include <utility>

namespace bbrgym
{

namespace
{

using Json = nlohmann::json;

constexpr Bound ANY_COUNT{"", 0, 1e18, "count"};
constexpr std::string_view NAMED = "links."; ///< begins the name of a link that has one

/** A value of the JSON text, and its place there. */
class Value
{
  public:
    Value(const Json& json, std::string path) : m_json(json), m_path(std::move(path)) {}

    const Json& Raw() const { return m_json; }

    Value operator[](const std::string& key) const
    {
        Require(m_json.is_object(), "an object");
        const std::string path = m_path.empty() ? key : m_path + "." + key;
        if (!m_json.contains(key))
        {
            throw ScenarioError(path, "is missing");
        }
        return {m_json.at(key), path};
    }
    Value operator[](std::size_t index) const { return {m_json.at(index), m_path + "[" + std::to_string(index) + "]"}; }

    void Require(bool holds, const std::string& expected) const
    {
        if (!holds)
        {
            throw ScenarioError(m_path, "is " + m_json.dump() + ", expected " + expected);
        }
    }

    double Number(const Bound& bound) const
    {
        const double number = m_json.is_number() ? m_json.get<double>() : std::nan("");
        Require(number >= bound.low && number <= bound.high,
                "a number >= " + Json(bound.low).dump() + " and <= " + Json(bound.high).dump());
        return number;
    }

    template <class Count = uint64_t> Count Whole(const Bound& bound) const
    {
        const double number = Number(bound);
        Require(number == std::floor(number), "a whole number");
        return static_cast<Count>(number);
    }

    uint32_t OneOf(const std::vector<uint32_t>& numbers) const
    {
        Require(std::ranges::any_of(numbers, [this](uint32_t number) { return m_json == number; }),
                "one of " + Json(numbers).dump());
        return m_json.get<uint32_t>();
    }

    double RateBps() const { return Number(bounds::rate_mbps) * 1e6; }
    int64_t Ms(const Bound& bound) const { return NanosecondsOfMs(Number(bound)); }
    int64_t S(const Bound& bound) const { return NanosecondsOfS(Number(bound)); }

    bool Flag() const
    {
        Require(m_json.is_boolean(), "true or false");
        return m_json.get<bool>();
    }

    std::string Text() const
    {
        Require(m_json.is_string() && !m_json.get_ref<const std::string&>().empty(), "a text");
        return m_json.get<std::string>();
    }

    /** The index of the text in a list of names. */
    template <class Names> std::size_t Choice(const Names& names) const
    {
        const std::string text = m_json.is_string() ? m_json.get<std::string>() : "";
        const auto found = std::ranges::find(names, text);
        std::string known;
        for (const auto& name : names)
        {
            known += (known.empty() ? "" : ", ") + std::string(name);
        }
        Require(found != std::ranges::end(names), "one of " + known);
        return static_cast<std::size_t>(found - std::ranges::begin(names));
    }
    std::size_t Choice(std::initializer_list<const char*> names) const
    {
        return Choice(std::vector<std::string_view>(names.begin(), names.end()));
    }

    /** Null is nothing. */
    template <class Read> auto Optional(Read read) const -> std::optional<std::invoke_result_t<Read, const Value&>>
    {
        return m_json.is_null() ? decltype(Optional(read))() : read(*this);
    }

    template <class Read>
    auto List(const Bound& count, Read read) const -> std::vector<std::invoke_result_t<Read, const Value&>>
    {
        Require(m_json.is_array(), "a list");
        const auto size = static_cast<double>(m_json.size());
        if (size < count.low || size > count.high)
        {
            throw ScenarioError(m_path, "has " + std::to_string(m_json.size()) + " entries, expected " +
                                            std::to_string(std::llround(count.low)) + " to " +
                                            std::to_string(std::llround(count.high)));
        }
        decltype(List(count, read)) list;
        for (std::size_t i = 0; i < m_json.size(); ++i)
        {
            list.push_back(read((*this)[i]));
        }
        return list;
    }

  private:
    const Json& m_json;
    std::string m_path;
};

// ---- the link's parts -----------------------------------------------------------------------------------

uint64_t
ReadBytes(const Value& value)
{
    return value.Whole(bounds::bytes);
}

uint64_t
ReadPackets(const Value& value)
{
    return value.Whole(bounds::queue_packets);
}

CoDel
ReadCoDel(const Value& value)
{
    return {value["target_ms"].Ms(bounds::codel_ms), value["interval_ms"].Ms(bounds::codel_ms)};
}

Red
ReadRed(const Value& value)
{
    Red red{.min_bytes = ReadBytes(value["min_bytes"]),
            .max_bytes = ReadBytes(value["max_bytes"]),
            .max_probability = value["max_probability"].Number(bounds::red_probability),
            .gaps = value["gaps"].Choice({"ns3", "linux"}) == 0 ? Red::Gaps::NS3 : Red::Gaps::LINUX};
    value["max_bytes"].Require(red.max_bytes > red.min_bytes, "a number > min_bytes");
    return red;
}

using Discipline = decltype(Queue::discipline);

/** The kinds and their readers; a discipline ignores the parameters of the others. */
constexpr std::array<std::pair<const char*, Discipline (*)(const Value&)>, 6> DISCIPLINES{{
    {"droptail", [](const Value&) -> Discipline { return DropTail{}; }},
    {"red", [](const Value& value) -> Discipline { return ReadRed(value["red"]); }},
    {"codel", [](const Value& value) -> Discipline { return ReadCoDel(value["codel"]); }},
    {"fq_codel",
     [](const Value& value) -> Discipline {
         return FqCoDel{ReadCoDel(value["codel"]), value["quantum_bytes"].Whole(bounds::quantum_bytes)};
     }},
    {"pie", [](const Value& value) -> Discipline { return Pie{value["pie"]["target_ms"].Ms(bounds::codel_ms)}; }},
    {"cake", [](const Value& value) -> Discipline { return Cake{value["cake"]["rtt_ms"].Ms(bounds::rtt_ms)}; }},
}};

Discipline
ReadDiscipline(const Value& value)
{
    return DISCIPLINES[value["kind"].Choice(std::views::keys(DISCIPLINES))].second(value);
}

Queue
ReadQueue(const Value& value)
{
    const Queue queue{.discipline = ReadDiscipline(value),
                      .size_bytes = value["size_bytes"].Optional(ReadBytes),
                      .size_packets = value["size_packets"].Optional(ReadPackets),
                      .ecn = value["ecn"].Flag(),
                      .ecn_threshold_bytes = value["ecn_threshold_bytes"].Optional(ReadBytes),
                      .ecn_threshold_packets = value["ecn_threshold_packets"].Optional(ReadPackets),
                      .ecn_threshold_ns =
                          value["ecn_threshold_ms"].Optional([](const Value& ms) { return ms.Ms(bounds::codel_ms); })};
    value.Require(queue.size_bytes.has_value() != queue.size_packets.has_value(),
                  "exactly one of size_bytes and size_packets");
    return queue;
}

Policer
ReadPolicer(const Value& value)
{
    return {value["rate_mbps"].RateBps(), ReadBytes(value["burst_bytes"])};
}

Jitter
ReadJitter(const Value& value)
{
    return {value["share"].Number(bounds::probability), value["delay_ms"].Ms(bounds::delay_ms),
            value["reorder"].Flag()};
}

Acks
ReadAcks(const Value& value)
{
    switch (value["kind"].Choice({"at_once", "slots", "bursts"}))
    {
    case 0: return AcksAtOnce{};
    case 1: return AckSlots{value["every_ms"].Ms(bounds::ack_hold_ms)};
    default: return AckBursts{value["packets"].Whole(bounds::ack_burst), value["timeout_ms"].Ms(bounds::ack_hold_ms)};
    }
}

Loss
ReadLoss(const Value& value)
{
    const auto chance = [&value](const char* key) { return value[key].Number(bounds::probability); };
    switch (value["kind"].Choice({"none", "bernoulli", "gilbert_elliott"}))
    {
    case 0: return Bernoulli{};
    case 1: return Bernoulli{chance("rate")};
    default:
        using Clock = GilbertElliott::Clock;
        return GilbertElliott{chance("good_to_bad"), chance("bad_to_good"), chance("loss_good"), chance("loss_bad"),
                              value["clock"].Choice({"packet", "time"}) == 0 ? Clock::PACKET : Clock::TIME};
    }
}

/** The times are up to millions, so without a path for each. */
Trace
ReadTrace(const Value& value)
{
    Trace trace{.period_ns = value["period_ms"].Ms(bounds::trace_period_ms),
                .opportunity_bytes = ReadBytes(value["opportunity_bytes"])};
    const Value times = value["times_ms"];
    times.Require(times.Raw().is_array() && !times.Raw().empty(), "a list of times");
    trace.times_ns.reserve(times.Raw().size());
    for (const Json& time : times.Raw())
    {
        const int64_t time_ns =
            time.is_number() && time <= bounds::trace_period_ms.high ? NanosecondsOfMs(time.get<double>()) : -1;
        if (time_ns < (trace.times_ns.empty() ? 0 : trace.times_ns.back()) || time_ns > trace.period_ns)
        {
            times[trace.times_ns.size()].Require(false, "a number, not below the one before and at most period_ms");
        }
        trace.times_ns.push_back(time_ns);
    }
    if (value.Raw().contains("counts"))
    {
        const Bound most{"", 1,
                         std::max(1.0, std::floor(bounds::bytes.high / static_cast<double>(trace.opportunity_bytes))),
                         "count"};
        const auto size = static_cast<double>(trace.times_ns.size());
        trace.counts =
            value["counts"].List({"", size, size, "count"}, [&most](const Value& count) { return count.Whole(most); });
    }
    return trace;
}

LinkChange
ReadChange(const Value& value)
{
    return {
        .at_ns = value["at_s"].S(bounds::time_s),
        .rate_bps = value["rate_mbps"].Optional([](const Value& rate) { return rate.Raw() == 0 ? 0 : rate.RateBps(); }),
        .delay_ns = value["delay_ms"].Optional([](const Value& delay) { return delay.Ms(bounds::delay_ms); }),
        .loss_rate = value["loss_rate"].Optional([](const Value& loss) { return loss.Number(bounds::probability); })};
}

LastHop
ReadLastHop(const Value& value)
{
    const bool is_wifi = value["kind"].Choice({"wifi", "lte"}) == 0;
    const auto distance_m = value["distance_m"].Number(bounds::hop_distance_m);
    const auto queue_packets = static_cast<uint32_t>(ReadPackets(value["queue_packets"]));
    if (is_wifi)
    {
        const auto mcs =
            value["mcs"].Optional([](const Value& index) { return index.Whole<uint32_t>({"", 0, 11, "count"}); });
        value["standard"].Choice({"n", "ac", "ax"});
        return WifiHop{value["standard"].Text(),
                       value["width_mhz"].OneOf({20, 40, 80}),
                       value["streams"].OneOf({1, 2}),
                       mcs,
                       distance_m,
                       queue_packets};
    }
    return LteHop{value["bandwidth_mhz"].OneOf({5, 10, 15, 20}), value["layers"].OneOf({1, 2}), distance_m,
                  queue_packets};
}

DelayTrace
ReadDelayTrace(const Value& value)
{
    return {value["delays_ms"].List(bounds::delay_steps, [](const Value& delay) { return delay.Ms(bounds::delay_ms); }),
            value["step_ms"].Ms(bounds::delay_step_ms)};
}

/** What a link has in either direction. */
Link
ReadWire(const Value& value, const std::string& name)
{
    Link link{.name = name,
              .rate_bps = value["rate_mbps"].Optional([](const Value& rate) { return rate.RateBps(); }).value_or(0),
              .trace = value["trace"].Optional(ReadTrace),
              .delay_ns = value["delay_ms"].Ms(bounds::delay_ms),
              .queue = ReadQueue(value["queue"]),
              .loss = ReadLoss(value["loss"]),
              .loses_skbs =
                  value["loss"].Raw().contains("unit") && value["loss"]["unit"].Choice({"packet", "skb"}) == 1,
              .changes = value["changes"].List(bounds::changes, ReadChange)};
    if (value.Raw().contains("delay_trace"))
    {
        link.delay_trace = ReadDelayTrace(value["delay_trace"]);
    }
    value["rate_mbps"].Require((link.rate_bps > 0) != link.trace.has_value(), "exactly one of rate_mbps and trace");
    for (std::size_t i = 1; i < link.changes.size(); ++i)
    {
        value["changes"][i]["at_s"].Require(link.changes[i].at_ns >= link.changes[i - 1].at_ns,
                                            "times in ascending order");
    }
    return link;
}

Link
ReadLink(const Value& value, const std::string& name)
{
    Link link = ReadWire(value, name);
    link.policer = value["policer"].Optional(ReadPolicer);
    link.reorders = value.Raw().contains("reorder") && value["reorder"].Flag();
    link.jitter = value["jitter"].Optional(ReadJitter);
    link.acks = ReadAcks(value["acks"]);
    link.last_hop = value["last_hop"].Optional(ReadLastHop);
    return link;
}

// ---- a flow ---------------------------------------------------------------------------------------------

App
ReadApp(const Value& value, uint32_t mss_bytes)
{
    switch (value["kind"].Choice({"bulk", "cbr", "onoff", "flows", "frames"}))
    {
    case 0: return Bulk{(value["size_bytes"].Optional(ReadBytes).value_or(0) + mss_bytes - 1) / mss_bytes};
    case 1: return Cbr{value["rate_mbps"].RateBps()};
    case 2:
        return OnOff{value["rate_mbps"].RateBps(), value["on_s"].S(bounds::burst_s), value["off_s"].S(bounds::burst_s),
                     value["random"].Flag()};
    case 3: return Bulk{}; // drawn by its Transfer
    default:
        return Frames{value["fps"].Number(bounds::fps),
                      value["rate_mbps"].RateBps(),
                      value["key_every"].Whole(bounds::key_every),
                      value["key_ratio"].Number(bounds::key_ratio),
                      value["spread"].Number(bounds::probability),
                      value["late_after_ms"].Ms(bounds::rtt_ms)};
    }
}

Transfer
ReadTransfer(const Value& value, int64_t start_ns)
{
    Transfer transfer{
        .size_bytes = value["size_bytes"].List(ANY_COUNT, [](const Value& size) { return size.Number(bounds::bytes); }),
        .exponential = value["exponential"].Flag(),
        .earliest_ns = start_ns,
        .within_ns = value["within_s"].S(bounds::burst_s)};
    const auto sizes = static_cast<double>(transfer.size_bytes.size());
    transfer.weights = value["weights"].List({"", std::max(1.0, sizes), sizes, "count"},
                                             [](const Value& weight) { return weight.Number(bounds::weight); });
    return transfer;
}

/** The value of a fact as its table counts it: 0 or 1 of a flag, the index of a choice, a number, of a size either. */
int64_t
ReadFact(const Value& value, const StackFact& fact)
{
    if (fact.kind == StackFactKind::FLAG)
    {
        return value.Flag();
    }
    const bool is_size = fact.kind == StackFactKind::SIZE;
    if (fact.kind == StackFactKind::NUMBER || (is_size && !value.Raw().is_string()))
    {
        return value.Whole<int64_t>({"", static_cast<double>(fact.low), static_cast<double>(fact.high), "count"});
    }
    const auto index = static_cast<int64_t>(value.Choice(fact.choices));
    return is_size ? -index : index;
}

Stack
ReadStack(const Value& value)
{
    Stack stack;
    for (const StackFact& fact : StackFacts())
    {
        fact.set(stack, ReadFact(value[std::string(fact.name)], fact));
    }
    return stack;
}

/** A list of links' names as indices. */
std::vector<uint32_t>
ReadNames(const Value& value, const Scenario& scenario, double least)
{
    std::vector<std::string> names;
    for (std::size_t index = 0; index < scenario.Links(); ++index)
    {
        names.push_back(scenario.LinkAt(index).name.substr(NAMED.size()));
    }
    const Bound count{"", least, static_cast<double>(names.size()), "count"};
    return value.List(count, [&names](const Value& name) { return static_cast<uint32_t>(name.Choice(names)); });
}

/** The links that its packets cross. */
void
ReadPath(const Value& value, const Scenario& scenario, Flow& flow)
{
    if (scenario.link.name.starts_with(NAMED))
    {
        flow.there = ReadNames(value["path"], scenario, 1);
        flow.back = value.Raw().contains("ack_path") ? ReadNames(value["ack_path"], scenario, 0) : flow.back;
        std::vector<uint32_t> all = flow.there;
        all.insert(all.end(), flow.back.begin(), flow.back.end());
        std::ranges::sort(all);
        value["path"].Require(std::ranges::adjacent_find(all) == all.end(),
                              "each link once, those of ack_path included");
        return;
    }
    const bool has_reverse = !scenario.further_links.empty();
    if (has_reverse)
    {
        flow.back = {1};
    }
    if (value.Raw().contains("direction") && value["direction"].Choice({"forward", "reverse"}) == 1)
    {
        value["direction"].Require(has_reverse, "forward: there is no link.reverse");
        std::swap(flow.there, flow.back);
    }
}

Flow
ReadFlow(const Value& value, const Scenario& scenario)
{
    constexpr Role roles[] = {Role::TUNED, Role::FIXED, Role::BACKGROUND};
    Flow flow{.name = value["name"].Text(),
              .cc = value["cc"].Text(),
              .role = roles[value["role"].Choice({"tuned", "fixed", "background"})],
              .rtt_ns = value["rtt_ms"].Ms(bounds::rtt_ms),
              .start_ns = value["start_s"].S(bounds::time_s),
              .stop_ns = value["stop_s"].S(bounds::time_s),
              .app = ReadApp(value["app"], scenario.mss_bytes),
              .stack = ReadStack(value["stack"])};
    value["stop_s"].Require(flow.stop_ns > flow.start_ns, "a number > start_s");
    if (value["app"].Raw().contains("read_mbps"))
    {
        flow.read_bps = value["app"]["read_mbps"].RateBps();
    }
    if (value["app"]["kind"].Raw() == "flows")
    {
        flow.transfer = ReadTransfer(value["app"], flow.start_ns);
    }
    for (const auto& [name, tunable] : value["tunables"].Raw().items())
    {
        value["tunables"][name].Require(tunable.is_number(), "a number");
        flow.tunables[name] = tunable.get<double>();
    }
    flow.quic = value.Raw().contains("quic") ? value["quic"].Text() : flow.quic;
    ReadPath(value, scenario, flow);
    return flow;
}

} // namespace

Scenario
ParseScenario(const std::string& text)
{
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded())
    {
        throw ScenarioError("", "is not JSON");
    }
    const Value value(json, "");
    Scenario scenario{.name = value["name"].Text(),
                      .duration_ns = value["duration_s"].S(bounds::duration_s),
                      .warmup_ns = value["warmup_s"].S(bounds::time_s),
                      .mss_bytes = value["mss_bytes"].Whole<uint32_t>(bounds::mss_bytes)};
    if (value.Raw().contains("links"))
    {
        const auto read = [](const Value& link) { return ReadLink(link, std::string(NAMED) + link["name"].Text()); };
        scenario.further_links = value["links"].List(bounds::links, read);
        scenario.link = scenario.further_links.front();
        scenario.further_links.erase(scenario.further_links.begin());
    }
    else
    {
        scenario.link = ReadLink(value["link"], "link");
        if (value["link"].Raw().contains("reverse"))
        {
            scenario.further_links = {ReadWire(value["link"]["reverse"], "link.reverse")};
        }
    }
    scenario.flows =
        value["flows"].List(bounds::flows, [&scenario](const Value& flow) { return ReadFlow(flow, scenario); });
    value["warmup_s"].Require(scenario.warmup_ns < scenario.duration_ns, "a number < duration_s");
    return scenario;
}

} // namespace bbrgym
