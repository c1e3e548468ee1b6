// SPDX-License-Identifier: GPL-2.0-only
//
// ./ns3 run "bbrgym-opengym --task=FILE --openGymPort=5555 --simSeed=1"
//
// A task (`bbrgym task` writes it) as a simulation for ns3-gym: observation, action and reward are those of
// bbrgym/Tune-v0 with the same arguments and reset(seed=simSeed), through ns3-gym's own C++ interface. What is computed
// is in tune/, which knows nothing of it. Something wrong with task or action is one line on the error output, exit 2.
#include "run.h"

#include "ns3/command-line.h"
#include "ns3/opengym-module.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace bbrgym
{

using namespace ns3;

/** A run as ns3-gym sees an environment. */
class TuneGym : public OpenGymEnv
{
  public:
    TuneGym(const Task& task, uint64_t seed)
        : m_task(task),
          m_seed(seed),
          m_run(task, seed)
    {
    }

    /** From the first state to the scenario's end; the interface ends the process when the agent wants it to. */
    void Run()
    {
        while (!m_run.Done())
        {
            Notify();
            m_run.Step(m_action);
        }
        NotifySimulationEnd();
    }

    Ptr<OpenGymSpace> GetObservationSpace() override { return Box(0, 1, m_run.Observation().size()); }

    Ptr<OpenGymSpace> GetActionSpace() override { return Box(-1, 1, m_task.action.coordinates.size()); }

    Ptr<OpenGymDataContainer> GetObservation() override
    {
        const std::vector<float>& numbers = m_run.Observation();
        auto box = CreateObject<OpenGymBoxContainer<float>>(Shape(numbers.size()));
        box->SetData(numbers);
        return box;
    }

    float GetReward() override { return static_cast<float>(m_run.LastReward().total); }

    bool GetGameOver() override { return false; }

    std::string GetExtraInfo() override
    {
        nlohmann::ordered_json info{{"now_s", m_run.NowS()}, {"scenario", m_task.scenario->name}, {"seed", m_seed}};
        info["reward_terms"] = nlohmann::ordered_json::object();
        for (const auto& [name, value] : m_run.LastReward().terms)
        {
            info["reward_terms"][name] = value;
        }
        for (std::size_t i = 0; i < m_task.action.coordinates.size(); ++i)
        {
            info["tunables"][m_task.action.coordinates[i].name] = m_run.InForce().values[i];
        }
        return info.dump();
    }

    bool ExecuteActions(Ptr<OpenGymDataContainer> action) override
    {
        if (auto single = DynamicCast<OpenGymBoxContainer<float>>(action))
        {
            m_action = single->GetData();
        }
        else if (auto twice = DynamicCast<OpenGymBoxContainer<double>>(action))
        {
            const std::vector<double> numbers = twice->GetData();
            m_action.assign(numbers.begin(), numbers.end());
        }
        else
        {
            throw std::invalid_argument("action: is no box of float or double");
        }
        return true;
    }

  private:
    static std::vector<uint32_t> Shape(std::size_t numbers) { return {static_cast<uint32_t>(numbers)}; }

    static Ptr<OpenGymSpace> Box(float low, float high, std::size_t numbers)
    {
        return CreateObject<OpenGymBoxSpace>(low, high, Shape(numbers), "float");
    }

    const Task& m_task;
    const uint64_t m_seed;
    TuneRun m_run;
    std::vector<float> m_action;
};

void
Serve(const std::string& task_path, uint32_t port, uint64_t seed)
{
    const Task task = ReadTask(task_path);
    auto gym = CreateObject<TuneGym>(task, seed);
    gym->SetOpenGymInterface(CreateObject<OpenGymInterface>(port));
    gym->Run();
}

} // namespace bbrgym

int
main(int argc, char** argv)
{
    std::string task;
    uint32_t port = 5555;
    uint64_t seed = 1;
    ns3::CommandLine arguments(__FILE__);
    arguments.AddValue("task", "the file that `bbrgym task` wrote", task);
    arguments.AddValue("openGymPort", "where the Python side listens, on this machine", port);
    arguments.AddValue("simSeed", "of everything that is drawn", seed);
    arguments.Parse(argc, argv);
    try
    {
        bbrgym::Serve(task, port, seed);
        return 0;
    }
    catch (const std::invalid_argument& error)
    {
        std::fprintf(stderr, "bbrgym-opengym: %s\n", error.what());
        return 2;
    }
}
