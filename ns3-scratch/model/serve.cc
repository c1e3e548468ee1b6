// SPDX-License-Identifier: GPL-2.0-only
#include "serve.h"

#include "fields.hpp"
#include "params.hpp"
#include "tables.hpp"

#include <nlohmann/json.hpp>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace bbrgym
{

namespace
{

using Json = nlohmann::json;

constexpr int OWNER = STDIN_FILENO;
constexpr int NEXT_RUN = 64; ///< exit code of a run whose owner has asked for the next one
constexpr uint64_t DONE = 1;

template <typename List>
Json
NamesOf(const List& list)
{
    Json names = Json::array();
    for (const auto& one : list)
    {
        names.push_back(std::string(one.name));
    }
    return names;
}

/** The owner's end of the memory, and the run that it asks for. */
class Served
{
  public:
    explicit Served(const WorldFactory& make_world) : m_make_world(make_world)
    {
        char byte = 0;
        iovec part{&byte, 1};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int[2]))> control{};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const bool is_owners = recvmsg(OWNER, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != nullptr;
        if (!is_owners)
        {
            throw std::runtime_error(
                "the standard input is not that of a program of bbrgym's world ns3gym, which starts it");
        }
        std::array<int, 2> fds{};
        std::memcpy(fds.data(), CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
        m_mailbox_fd = fds[0];
        m_arrays_fd = fds[1];
    }

    /** Waits for the next request; false at the owner's end. */
    bool Await()
    {
        uint64_t wake = 0;
        if (read(OWNER, &wake, sizeof wake) != sizeof wake)
        {
            return false;
        }
        ReadRequest();
        return true;
    }

    void ReadRequest()
    {
        std::string text(SizeOf(m_mailbox_fd), '\0');
        const ssize_t got = pread(m_mailbox_fd, text.data(), text.size(), 0);
        m_request = Json::parse(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
    }

    bool IsReset() const { return m_request[0] == "reset"; }

    /** Carries out the request. */
    void Answer()
    {
        Json outcome = {"ok", ""};
        try
        {
            CarryOut();
        }
        catch (const std::logic_error& error) // the caller's mistake: nothing ran
        {
            outcome = {"invalid", error.what()};
        }
        catch (const std::exception& error)
        {
            outcome = {"failed", error.what()};
        }
        const std::string text = outcome.dump(-1, ' ', true, Json::error_handler_t::replace);
        const bool is_written =
            pwrite(m_mailbox_fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
            ftruncate(m_mailbox_fd, static_cast<off_t>(text.size())) == 0 &&
            write(OWNER, &DONE, sizeof DONE) == sizeof DONE;
        if (!is_written)
        {
            throw std::runtime_error(std::string("no answer can be given: ") + std::strerror(errno));
        }
    }

    /** One run, from its reset to the next or to the owner's end; returns the exit code. */
    int Run()
    {
        do
        {
            Answer();
            if (!Await())
            {
                return 0;
            }
        } while (!IsReset());
        m_world.reset();
        return NEXT_RUN;
    }

  private:
    void CarryOut()
    {
        const std::string what = m_request[0];
        if (what == "lay_out" || what == "reset")
        {
            LayOut(m_request[1]);
        }
        if (what == "reset")
        {
            Begin(std::make_shared<const Scenario>(ParseScenario(m_request[2])), m_request[3]);
        }
        else if (what == "advance")
        {
            m_world->Advance(m_request[1]);
            m_tables.WriteTime(m_index, m_world->NowS(), m_world->Done());
        }
        else if (what == "summary")
        {
            const std::size_t flows = m_request[1];
            constexpr std::size_t fields = std::size(FLOW_SUMMARY_FIELDS);
            constexpr std::size_t link_fields = std::size(LINK_SUMMARY_FIELDS);
            m_world->Summarise(m_flow_summary.subspan(m_index * m_tables.flow_capacity * fields, flows * fields),
                               m_link_summary.subspan(m_index * link_fields, link_fields));
        }
    }

    /** Maps the arrays: numbers of worlds and of flows, this world's index, and the names of the columns. */
    void LayOut(const Json& layout)
    {
        if (layout[3] != Json::array({NamesOf(Tunables()), NamesOf(FLOW_STAT_FIELDS), NamesOf(LINK_STAT_FIELDS),
                                      NamesOf(FLOW_SUMMARY_FIELDS), NamesOf(LINK_SUMMARY_FIELDS)}))
        {
            throw std::runtime_error(
                "the program has other tunables or fields than this bbrgym: build it from the same one");
        }
        const std::size_t worlds = layout[0];
        const std::size_t flows = layout[1];
        m_index = layout[2];
        // A former mapping stays to the end of the process: there are few in a run.
        void* memory = mmap(nullptr, SizeOf(m_arrays_fd), PROT_READ | PROT_WRITE, MAP_SHARED, m_arrays_fd, 0);
        if (memory == MAP_FAILED)
        {
            throw std::runtime_error(std::string("the arrays cannot be mapped: ") + std::strerror(errno));
        }
        auto* at = static_cast<double*>(memory); // the order is that of bbrgym.worlds.layout.Shape
        const auto take = [&at](std::size_t size) { return std::span(std::exchange(at, at + size), size); };
        m_tables.flow_capacity = flows;
        m_tables.tunables = take(worlds * flows * Tunables().size());
        m_tables.flow_stats = take(worlds * flows * std::size(FLOW_STAT_FIELDS));
        m_tables.link_stats = take(worlds * std::size(LINK_STAT_FIELDS));
        m_flow_summary = take(worlds * flows * std::size(FLOW_SUMMARY_FIELDS));
        m_link_summary = take(worlds * std::size(LINK_SUMMARY_FIELDS));
        m_tables.now_s = take(worlds);
        m_tables.done = {reinterpret_cast<bool*>(at), worlds};
        if (m_world)
        {
            m_world->SetTables(m_tables.Of(m_index, m_world->GetScenario().flows.size()));
        }
    }

    void Begin(const std::shared_ptr<const Scenario>& scenario, uint64_t seed)
    {
        const WorldTables rows = m_tables.Begin(m_index, scenario->flows.size(), "scenario '" + scenario->name + "'");
        m_world = m_make_world(scenario, seed);
        m_world->Advance(0); // the rows of an empty interval
        const WorldTables& own = m_world->GetTables();
        std::ranges::copy(own.tunables, rows.tunables.begin());
        std::ranges::copy(own.flow_stats, rows.flow_stats.begin());
        std::ranges::copy(own.link_stats, rows.link_stats.begin());
        m_world->SetTables(rows);
        m_tables.WriteTime(m_index, m_world->NowS(), m_world->Done());
    }

    static std::size_t SizeOf(int fd)
    {
        struct stat file{};
        fstat(fd, &file);
        return static_cast<std::size_t>(file.st_size);
    }

    const WorldFactory& m_make_world;
    int m_mailbox_fd = -1;
    int m_arrays_fd = -1;
    Json m_request;
    VectorTables m_tables;
    std::span<double> m_flow_summary;
    std::span<double> m_link_summary;
    std::size_t m_index = 0; ///< of this world, in the tables
    std::unique_ptr<World> m_world;
};

} // namespace

int
ServeMain(const WorldFactory& make_world)
{
    try
    {
        Served served(make_world);
        while (served.Await())
        {
            while (served.IsReset())
            {
                std::fflush(nullptr);
                const pid_t run = fork();
                if (run == 0)
                {
                    std::exit(served.Run());
                }
                int status = 0;
                if (waitpid(run, &status, 0) < 0)
                {
                    throw std::runtime_error(std::string("no process for a run: ") + std::strerror(errno));
                }
                if (WIFSIGNALED(status))
                {
                    raise(WTERMSIG(status));
                }
                if (WEXITSTATUS(status) != NEXT_RUN)
                {
                    return WEXITSTATUS(status);
                }
                served.ReadRequest();
            }
            served.Answer(); // the arrays, before the first run
        }
        return 0;
    }
    catch (const std::exception& error)
    {
        std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.what());
        return 1;
    }
}

} // namespace bbrgym
