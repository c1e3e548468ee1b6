// SPDX-License-Identifier: GPL-2.0-only
//
// In place of the congestion control, where the package was built without what it needs.
#include "congestion_control.hpp"

namespace bbrgym
{

namespace
{

constexpr const char* WHY_NOT = "the package was built without " BBRGYM_BPF_NEEDS;

} // namespace

class CongestionControl::Loaded
{
};

std::string
CongestionControl::WhyNot()
{
    return WHY_NOT;
}

std::string
CongestionControl::Compiler()
{
    return "";
}

std::string CongestionControl::PolicyVariantOf(const std::string&) { throw CongestionControlError(WHY_NOT); }
CongestionControl::CongestionControl(const bpf_flow_settings&, std::size_t, bool, const std::string&) { throw CongestionControlError(WHY_NOT); }
CongestionControl::~CongestionControl() = default;

// None of these can be reached: there is no object.
const std::string& CongestionControl::Name() const { throw CongestionControlError(WHY_NOT); }
void CongestionControl::Attach(int, const bpf_flow_settings&) { throw CongestionControlError(WHY_NOT); }
void CongestionControl::SetSettings(int, const bpf_flow_settings&) { throw CongestionControlError(WHY_NOT); }
bpf_flow_settings CongestionControl::Settings(int) const { throw CongestionControlError(WHY_NOT); }
std::string CongestionControl::PolicyVariant() const { throw CongestionControlError(WHY_NOT); }
std::optional<PolicyReport> CongestionControl::ReadPolicy(int) const { throw CongestionControlError(WHY_NOT); }
std::optional<bpf_flow> CongestionControl::Read(int) const { throw CongestionControlError(WHY_NOT); }
std::vector<bpf_record> CongestionControl::TakeRecords() { throw CongestionControlError(WHY_NOT); }
void CongestionControl::MeasureCost() { throw CongestionControlError(WHY_NOT); }
std::vector<ProgramCost> CongestionControl::Costs() const { throw CongestionControlError(WHY_NOT); }

} // namespace bbrgym
