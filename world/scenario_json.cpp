// SPDX-License-Identifier: GPL-2.0-only
//
// Each object of a scenario is read by a table: a row for each field with its key, the member that holds it, its bounds
// and what else it must obey. An object has every field of its table and no other.
#include "bounds.hpp"
#include "scenario.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ranges>
#include <set>

namespace bbrgym
{

namespace
{

using Json = nlohmann::json;

template <class Names>
std::string
Listed(const Names& names)
{
    std::string text;
    for (const std::string& name : names)
    {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

/** A value of the JSON text, discarded where it is missing, and its place there. */
class Value
{
  public:
    explicit Value(const Json& json, std::string key = "", const Value* parent = nullptr)
        : m_json(json),
          m_key(std::move(key)),
          m_parent(parent)
    {
    }

    const Json& Raw() const { return m_json; }
    const Json& WholeScenario() const { return m_parent ? m_parent->WholeScenario() : m_json; }

    Value operator[](const std::string& key) const
    {
        static const Json MISSING = Json::value_t::discarded;
        return Value(m_json.is_object() && m_json.contains(key) ? m_json.at(key) : MISSING, key, this);
    }
    Value operator[](std::size_t index) const { return Value(m_json.at(index), "[" + std::to_string(index) + "]", this); }

    std::string Path() const
    {
        const std::string above = m_parent ? m_parent->Path() : "";
        return above + (above.empty() || m_key.starts_with('[') ? "" : ".") + m_key;
    }

    [[noreturn]] void Fail(const std::string& problem) const { throw ScenarioError(Path(), problem); }
    void Require(bool holds, const std::string& expected) const
    {
        if (!holds)
        {
            Fail("is " + (m_json.is_discarded() ? "missing" : m_json.dump()) + ", expected " + expected);
        }
    }

    /** A number from `low` to `high`, or above `low` only if `above_low`. */
    double Number(double low, double high, bool above_low = false) const
    {
        const double number = m_json.is_number() ? m_json.get<double>() : std::nan("");
        Require(number <= high && (above_low ? number > low : number >= low),
                std::string("a number ") + (above_low ? "> " : ">= ") + Json(low).dump() + " and <= " + Json(high).dump());
        return number;
    }

    uint64_t Whole(double low, double high, bool above_low = false) const
    {
        const double number = Number(low, high, above_low);
        Require(number == std::floor(number), "a whole number");
        return static_cast<uint64_t>(number);
    }

    template <class T>
    const T& Choice(const std::map<std::string, T>& choices) const
    {
        const auto found = m_json.is_string() ? choices.find(m_json.get<std::string>()) : choices.end();
        Require(found != choices.end(), "one of " + Listed(choices | std::views::keys));
        return found->second;
    }

  private:
    const Json& m_json;
    std::string m_key;
    const Value* m_parent;
};

// ---- how a value is stored ------------------------------------------------------------------------------

template <class T>
using Reader = std::function<void(T&, const Value&)>;

template <class T>
struct Row
{
    std::string key;
    Reader<T> read;
};

template <class T>
using Table = std::vector<Row<T>>;
template <class T>
const Table<T> TABLE; ///< of an object
template <class T>
const std::map<std::string, Reader<T>> KINDS; ///< of a variant
template <class T>
const std::map<std::string, T> NAMES; ///< of an enumeration

template <class T>
void
ReadTable(T& object, const Value& value, const Table<T>& table)
{
    if (!value.Raw().is_object())
    {
        value.Fail(std::string("is ") + value.Raw().type_name() + ", expected an object");
    }
    std::set<std::string> known;
    std::ranges::transform(table, std::inserter(known, known.end()), &Row<T>::key);
    for (const auto& [key, field] : value.Raw().items())
    {
        if (!known.contains(key))
        {
            value[key].Fail("unknown field, allowed are " + Listed(known));
        }
    }
    for (const Row<T>& row : table)
    {
        row.read(object, value[row.key]);
    }
}

/** A number in the unit of its bound; a rate in bits per second. */
void
Store(double& number, const Value& value, const Bound& bound)
{
    number = value.Number(bound.low, bound.high) * (bound.unit == "Mbit/s" ? 1e6 : 1);
}

/** A time, of which the bound says the unit, in nanoseconds. */
void
Store(int64_t& time_ns, const Value& value, const Bound& bound)
{
    const double time = value.Number(bound.low, bound.high);
    time_ns = bound.unit == "ms" ? NanosecondsOfMs(time) : NanosecondsOfS(time);
}

template <std::unsigned_integral Count>
void
Store(Count& count, const Value& value, const Bound& bound)
{
    count = static_cast<Count>(value.Whole(bound.low, bound.high));
}

void
Store(uint32_t& number, const Value& value, const std::set<uint32_t>& choices)
{
    const Json& raw = value.Raw();
    value.Require(raw.is_number_unsigned() && choices.contains(raw.get<uint32_t>()), "one of " + Json(choices).dump());
    number = raw.get<uint32_t>();
}

void
Store(bool& flag, const Value& value)
{
    value.Require(value.Raw().is_boolean(), "true or false");
    flag = value.Raw().get<bool>();
}

void
Store(std::string& text, const Value& value)
{
    value.Require(value.Raw().is_string() && !value.Raw().get_ref<const std::string&>().empty(), "a text");
    text = value.Raw().get<std::string>();
}

template <class T>
void
Store(T& target, const Value& value)
{
    if constexpr (std::is_enum_v<T>)
    {
        target = value.Choice(NAMES<T>);
    }
    else if constexpr (requires { std::variant_size<T>::value; })
    {
        value["kind"].Choice(KINDS<T>)(target, value);
    }
    else
    {
        ReadTable(target, value, TABLE<T>);
    }
}

/** Null leaves nothing. */
template <class T, class... How>
void
Store(std::optional<T>& target, const Value& value, const How&... how)
{
    if (!value.Raw().is_null())
    {
        Store(target.emplace(), value, how...);
    }
}

template <class T, class... How>
void
Store(std::vector<T>& list, const Value& value, const Bound& count, const How&... how)
{
    value.Require(value.Raw().is_array(), "a list");
    const std::size_t size = value.Raw().size();
    if (static_cast<double>(size) < count.low || static_cast<double>(size) > count.high)
    {
        value.Fail("has " + std::to_string(size) + " entries, expected " + std::to_string(std::llround(count.low)) + " to " +
                   std::to_string(std::llround(count.high)));
    }
    for (std::size_t i = 0; i < size; ++i)
    {
        Store(list.emplace_back(), value[i], how...);
    }
}

/** The row of a field that a member holds. */
template <class T, class M, class... How>
Row<T>
Field(const char* key, M T::*member, How... how)
{
    return {key, [=](T& object, const Value& value) { Store(object.*member, value, how...); }};
}

/** The kind, which has been read. */
template <class T>
const Row<T> KIND{"kind", [](T&, const Value&) {}};

template <class Alternative, class Variant>
void
As(Variant& target, const Value& value)
{
    ReadTable(target.template emplace<Alternative>(), value, TABLE<Alternative>);
}

constexpr Bound ANY_COUNT{"", 0, 1e18, "count"};

void
RequireAsMany(const Value& value, std::size_t expected, const std::string& of)
{
    if (value.Raw().size() != expected || expected == 0)
    {
        value.Fail("has " + std::to_string(value.Raw().size()) + " entries, expected one for each of " + of);
    }
}

// ---- the link's parts -----------------------------------------------------------------------------------

template <> const std::map<std::string, Red::Gaps> NAMES<Red::Gaps> = {{"ns3", Red::Gaps::NS3}, {"linux", Red::Gaps::LINUX}};

template <> const Table<Red> TABLE<Red> = {
    Field("min_bytes", &Red::min_bytes, bounds::bytes),
    {"max_bytes",
     [](Red& red, const Value& value) {
         red.max_bytes = value.Whole(static_cast<double>(red.min_bytes), bounds::bytes.high, true);
     }},
    Field("max_probability", &Red::max_probability, bounds::red_probability),
    Field("gaps", &Red::gaps),
};

template <> const Table<CoDel> TABLE<CoDel> = {
    Field("target_ms", &CoDel::target_ns, bounds::codel_ms),
    Field("interval_ms", &CoDel::interval_ns, bounds::codel_ms),
};

using Discipline = decltype(Queue::discipline);

template <> const std::map<std::string, Discipline> NAMES<Discipline> = {
    {"droptail", DropTail{}},
    {"red", Red{}},
    {"codel", CoDel{}},
    {"fq_codel", FqCoDel{}},
};

// A discipline ignores the parameters of the others.

void
ReadRed(Queue& queue, const Value& value)
{
    if (auto* red = std::get_if<Red>(&queue.discipline))
    {
        Store(*red, value);
    }
}

void
ReadCoDel(Queue& queue, const Value& value)
{
    auto* fair = std::get_if<FqCoDel>(&queue.discipline);
    if (auto* codel = fair ? &fair->codel : std::get_if<CoDel>(&queue.discipline))
    {
        Store(*codel, value);
    }
}

void
ReadQuantum(Queue& queue, const Value& value)
{
    if (auto* fair = std::get_if<FqCoDel>(&queue.discipline))
    {
        Store(fair->quantum_bytes, value, bounds::quantum_bytes);
    }
}

template <> const Table<Queue> TABLE<Queue> = {
    {"kind", [](Queue& queue, const Value& value) { queue.discipline = value.Choice(NAMES<Discipline>); }},
    Field("size_bytes", &Queue::size_bytes, bounds::bytes),
    {"size_packets",
     [](Queue& queue, const Value& value) {
         Store(queue.size_packets, value, bounds::queue_packets);
         if (queue.size_bytes.has_value() == queue.size_packets.has_value())
         {
             throw ScenarioError("link.queue", "expected exactly one of size_bytes and size_packets");
         }
     }},
    {"red", ReadRed},
    {"codel", ReadCoDel},
    {"quantum_bytes", ReadQuantum},
    Field("ecn", &Queue::ecn),
    Field("ecn_threshold_bytes", &Queue::ecn_threshold_bytes, bounds::bytes),
    Field("ecn_threshold_packets", &Queue::ecn_threshold_packets, bounds::queue_packets),
    Field("ecn_threshold_ms", &Queue::ecn_threshold_ns, bounds::codel_ms),
};

template <> const Table<Policer> TABLE<Policer> = {
    Field("rate_mbps", &Policer::rate_bps, bounds::rate_mbps),
    Field("burst_bytes", &Policer::burst_bytes, bounds::bytes),
};

template <> const Table<Jitter> TABLE<Jitter> = {
    Field("share", &Jitter::share, bounds::probability),
    Field("delay_ms", &Jitter::delay_ns, bounds::delay_ms),
    Field("reorder", &Jitter::reorders),
};

template <> const Table<AcksAtOnce> TABLE<AcksAtOnce> = {KIND<AcksAtOnce>};
template <> const Table<AckSlots> TABLE<AckSlots> = {KIND<AckSlots>, Field("every_ms", &AckSlots::every_ns, bounds::ack_hold_ms)};
template <> const Table<AckBursts> TABLE<AckBursts> = {
    KIND<AckBursts>,
    Field("packets", &AckBursts::packets, bounds::ack_burst),
    Field("timeout_ms", &AckBursts::timeout_ns, bounds::ack_hold_ms),
};
template <> const std::map<std::string, Reader<Acks>> KINDS<Acks> = {
    {"at_once", As<AcksAtOnce, Acks>},
    {"slots", As<AckSlots, Acks>},
    {"bursts", As<AckBursts, Acks>},
};

using Clock = GilbertElliott::Clock;
template <> const std::map<std::string, Clock> NAMES<Clock> = {{"packet", Clock::PACKET}, {"time", Clock::TIME}};

template <> const Table<Bernoulli> TABLE<Bernoulli> = {KIND<Bernoulli>, Field("rate", &Bernoulli::rate, bounds::probability)};
template <> const Table<GilbertElliott> TABLE<GilbertElliott> = {
    KIND<GilbertElliott>,
    Field("good_to_bad", &GilbertElliott::good_to_bad, bounds::probability),
    Field("bad_to_good", &GilbertElliott::bad_to_good, bounds::probability),
    Field("loss_good", &GilbertElliott::loss_good, bounds::probability),
    Field("loss_bad", &GilbertElliott::loss_bad, bounds::probability),
    Field("clock", &GilbertElliott::clock),
};
template <> const std::map<std::string, Reader<Loss>> KINDS<Loss> = {
    {"none", [](Loss& loss, const Value& value) { ReadTable(loss, value, {KIND<Loss>}); }},
    {"bernoulli", As<Bernoulli, Loss>},
    {"gilbert_elliott", As<GilbertElliott, Loss>},
};

/** Up to millions, so without a path for each. */
void
ReadTraceTimes(Trace& trace, const Value& value)
{
    value.Require(value.Raw().is_array(), "a list");
    if (value.Raw().empty())
    {
        value.Fail("is empty, expected at least one time");
    }
    trace.times_ns.reserve(value.Raw().size());
    for (const Json& time : value.Raw())
    {
        const double time_ms = time.is_number() ? time.get<double>() : -1;
        const bool is_time = time_ms >= 0 && time_ms <= bounds::trace_period_ms.high;
        const int64_t time_ns = is_time ? NanosecondsOfMs(time_ms) : -1;
        if (time_ns < (trace.times_ns.empty() ? 0 : trace.times_ns.back()) || time_ns > trace.period_ns)
        {
            value[trace.times_ns.size()].Require(false, "a number, not below the one before and at most period_ms");
        }
        trace.times_ns.push_back(time_ns);
    }
}

void
ReadTraceCounts(Trace& trace, const Value& value)
{
    if (!value.Raw().is_discarded())
    {
        const double most = std::floor(bounds::bytes.high / static_cast<double>(trace.opportunity_bytes));
        Store(trace.counts, value, ANY_COUNT, Bound{"", 1, std::max(1.0, most), "count"});
        RequireAsMany(value, trace.times_ns.size(), std::to_string(trace.times_ns.size()) + " times_ms");
    }
}

template <> const Table<Trace> TABLE<Trace> = {
    Field("period_ms", &Trace::period_ns, bounds::trace_period_ms),
    Field("opportunity_bytes", &Trace::opportunity_bytes, bounds::bytes),
    {"times_ms", ReadTraceTimes},
    {"counts", ReadTraceCounts},
};

template <> const Table<LinkChange> TABLE<LinkChange> = {
    Field("at_s", &LinkChange::at_ns, bounds::time_s),
    {"rate_mbps",
     [](LinkChange& change, const Value& value) {
         const bool is_outage = value.Raw() == 0;
         Store(change.rate_bps, value, is_outage ? Bound{"", 0, 0, "Mbit/s"} : bounds::rate_mbps);
     }},
    Field("delay_ms", &LinkChange::delay_ns, bounds::delay_ms),
    Field("loss_rate", &LinkChange::loss_rate, bounds::probability),
};

/** Of a link whose trace and loss have been read. */
void
ReadChanges(Link& link, const Value& value)
{
    Store(link.changes, value, bounds::changes);
    for (std::size_t i = 0; i < link.changes.size(); ++i)
    {
        const LinkChange& change = link.changes[i];
        value[i]["at_s"].Require(i == 0 || change.at_ns >= link.changes[i - 1].at_ns, "times in ascending order");
        if (link.trace && change.rate_bps)
        {
            value[i]["rate_mbps"].Fail("the link follows a trace, expected null");
        }
        if (std::holds_alternative<GilbertElliott>(link.loss) && change.loss_rate)
        {
            value[i]["loss_rate"].Fail("the link's loss is gilbert_elliott, expected null");
        }
    }
}

/** The highest modulation and coding scheme; 802.11ac has no ninth for one or two streams on 20 MHz. */
double
HighestMcs(const WifiHop& hop)
{
    return hop.standard == "n" ? 7 : hop.standard == "ax" ? 11 : hop.width_mhz == 20 ? 8 : 9;
}

using Numbers = std::set<uint32_t>;

template <> const Table<WifiHop> TABLE<WifiHop> = {
    KIND<WifiHop>,
    {"standard",
     [](WifiHop& hop, const Value& value) {
         hop.standard = value.Choice(std::map<std::string, std::string>{{"n", "n"}, {"ac", "ac"}, {"ax", "ax"}});
     }},
    {"width_mhz",
     [](WifiHop& hop, const Value& value) {
         Store(hop.width_mhz, value, hop.standard == "n" ? Numbers{20, 40} : Numbers{20, 40, 80});
     }},
    Field("streams", &WifiHop::streams, Numbers{1, 2}),
    {"mcs", [](WifiHop& hop, const Value& value) { Store(hop.mcs, value, Bound{"", 0, HighestMcs(hop), "count"}); }},
    Field("distance_m", &WifiHop::distance_m, bounds::hop_distance_m),
    Field("queue_packets", &WifiHop::queue_packets, bounds::queue_packets),
};
template <> const Table<LteHop> TABLE<LteHop> = {
    KIND<LteHop>,
    Field("bandwidth_mhz", &LteHop::bandwidth_mhz, Numbers{5, 10, 15, 20}),
    Field("layers", &LteHop::layers, Numbers{1, 2}),
    Field("distance_m", &LteHop::distance_m, bounds::hop_distance_m),
    Field("queue_packets", &LteHop::queue_packets, bounds::queue_packets),
};
template <> const std::map<std::string, Reader<LastHop>> KINDS<LastHop> = {{"wifi", As<WifiHop, LastHop>}, {"lte", As<LteHop, LastHop>}};

template <> const Table<Link> TABLE<Link> = {
    {"rate_mbps",
     [](Link& link, const Value& value) {
         if (value.Raw().is_null() == value.WholeScenario()["link"].value("trace", Json()).is_null())
         {
             throw ScenarioError("link", "expected exactly one of rate_mbps and trace");
         }
         if (!value.Raw().is_null())
         {
             Store(link.rate_bps, value, bounds::rate_mbps);
         }
     }},
    Field("trace", &Link::trace),
    Field("delay_ms", &Link::delay_ns, bounds::delay_ms),
    Field("policer", &Link::policer),
    Field("queue", &Link::queue),
    Field("loss", &Link::loss),
    Field("jitter", &Link::jitter),
    Field("acks", &Link::acks),
    {"changes", ReadChanges},
    Field("last_hop", &Link::last_hop),
};

// ---- a flow ---------------------------------------------------------------------------------------------

template <> const std::map<std::string, Role> NAMES<Role> = {
    {"tuned", Role::TUNED},
    {"fixed", Role::FIXED},
    {"background", Role::BACKGROUND},
};

template <> const Table<Bulk> TABLE<Bulk> = {
    KIND<Bulk>,
    {"size_bytes",
     [](Bulk& bulk, const Value& value) {
         const auto mss_bytes = value.WholeScenario()["mss_bytes"].get<uint64_t>();
         std::optional<uint64_t> size_bytes;
         Store(size_bytes, value, bounds::bytes);
         bulk.pkts = (size_bytes.value_or(0) + mss_bytes - 1) / mss_bytes;
     }},
};
template <> const Table<Cbr> TABLE<Cbr> = {KIND<Cbr>, Field("rate_mbps", &Cbr::rate_bps, bounds::rate_mbps)};
template <> const Table<OnOff> TABLE<OnOff> = {
    KIND<OnOff>,
    Field("rate_mbps", &OnOff::rate_bps, bounds::rate_mbps),
    Field("on_s", &OnOff::on_ns, bounds::burst_s),
    Field("off_s", &OnOff::off_ns, bounds::burst_s),
    Field("random", &OnOff::random),
};
template <> const Table<Transfer> TABLE<Transfer> = {
    KIND<Transfer>,
    Field("size_bytes", &Transfer::size_bytes, ANY_COUNT, bounds::bytes),
    {"weights",
     [](Transfer& transfer, const Value& value) {
         Store(transfer.weights, value, ANY_COUNT, bounds::weight);
         RequireAsMany(value, transfer.size_bytes.size(), "at least one size_bytes");
     }},
    Field("exponential", &Transfer::exponential),
    Field("within_s", &Transfer::within_ns, bounds::burst_s),
};

/** Of a flow whose start and stop have been read. */
void
ReadTransfer(Flow& flow, const Value& value)
{
    Store(flow.transfer.emplace(), value);
    flow.transfer->earliest_ns = flow.start_ns;
    value["within_s"].Require(flow.start_ns + flow.transfer->within_ns <= flow.stop_ns, "at most stop_s - start_s");
}

/** The kinds are the flow's, because a transfer is not an App. */
const std::map<std::string, Reader<Flow>> APPS = {
    {"bulk", [](Flow& flow, const Value& value) { As<Bulk>(flow.app, value); }},
    {"cbr", [](Flow& flow, const Value& value) { As<Cbr>(flow.app, value); }},
    {"onoff", [](Flow& flow, const Value& value) { As<OnOff>(flow.app, value); }},
    {"flows", ReadTransfer},
};

/** The value of a fact as its table counts it: 0 or 1 of a flag, the index of a choice, a number, of a size either. */
int64_t
ReadFact(const Value& value, const StackFact& fact)
{
    if (fact.kind == StackFactKind::FLAG)
    {
        bool flag = false;
        Store(flag, value);
        return flag;
    }
    const bool is_size = fact.kind == StackFactKind::SIZE;
    if (fact.kind == StackFactKind::NUMBER || (is_size && !value.Raw().is_string()))
    {
        return static_cast<int64_t>(value.Whole(static_cast<double>(fact.low), static_cast<double>(fact.high)));
    }
    std::map<std::string, int64_t> indices;
    for (std::size_t i = 0; i < fact.choices.size(); ++i)
    {
        indices[fact.choices[i]] = is_size ? -static_cast<int64_t>(i) : static_cast<int64_t>(i);
    }
    return value.Choice(indices);
}

Table<Stack>
StackTable()
{
    std::map<std::string, StackPreset> presets;
    for (const std::string_view name : STACK_PRESETS)
    {
        presets.emplace(name, *FindStackPreset(name));
    }
    Table<Stack> table = {{"preset", [presets](Stack&, const Value& value) { value.Choice(presets); }}};
    for (const StackFact& fact : StackFacts())
    {
        table.push_back({std::string(fact.name), [&](Stack& stack, const Value& value) { fact.set(stack, ReadFact(value, fact)); }});
    }
    return table;
}
template <> const Table<Stack> TABLE<Stack> = StackTable();

/** At least twice the link's delay. */
void
ReadRtt(Flow& flow, const Value& value)
{
    const auto link_delay_ms = value.WholeScenario()["link"]["delay_ms"].get<double>();
    flow.rtt_ns = NanosecondsOfMs(value.Number(std::max(bounds::rtt_ms.low, 2 * link_delay_ms), bounds::rtt_ms.high));
}

void
ReadTunables(Flow& flow, const Value& value)
{
    value.Require(value.Raw().is_object(), "an object");
    for (const auto& [name, tunable] : value.Raw().items())
    {
        value[name].Require(tunable.is_number(), "a number");
        flow.tunables[name] = tunable.get<double>();
    }
}

template <> const Table<Flow> TABLE<Flow> = {
    Field("name", &Flow::name),
    Field("cc", &Flow::cc),
    Field("role", &Flow::role),
    {"rtt_ms", ReadRtt},
    Field("start_s", &Flow::start_ns, bounds::time_s),
    {"stop_s",
     [](Flow& flow, const Value& value) {
         Store(flow.stop_ns, value, bounds::time_s);
         value.Require(flow.stop_ns > flow.start_ns, "a number > start_s");
     }},
    {"app", [](Flow& flow, const Value& value) { value["kind"].Choice(APPS)(flow, value); }},
    Field("stack", &Flow::stack),
    {"tunables", ReadTunables},
};

// ---- the scenario ---------------------------------------------------------------------------------------

void
ReadFlows(Scenario& scenario, const Value& value)
{
    Store(scenario.flows, value, bounds::flows);
    std::set<std::string> names;
    for (std::size_t i = 0; i < scenario.flows.size(); ++i)
    {
        if (!names.insert(scenario.flows[i].name).second)
        {
            value[i]["name"].Fail("is " + Json(scenario.flows[i].name).dump() + " again, expected a name of its own");
        }
    }
}

template <> const Table<Scenario> TABLE<Scenario> = {
    Field("name", &Scenario::name),
    Field("duration_s", &Scenario::duration_ns, bounds::duration_s),
    {"warmup_s",
     [](Scenario& scenario, const Value& value) {
         Store(scenario.warmup_ns, value, bounds::time_s);
         value.Require(scenario.warmup_ns < scenario.duration_ns, "a number < duration_s");
     }},
    Field("mss_bytes", &Scenario::mss_bytes, bounds::mss_bytes),
    Field("link", &Scenario::link),
    {"flows", ReadFlows},
};

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
    Scenario scenario;
    Store(scenario, Value(json));
    return scenario;
}

} // namespace bbrgym
