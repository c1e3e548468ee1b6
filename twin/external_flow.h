/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An external flow: another project's sender and receiver, which run in the twin's time. The C ABI of both sides.
 *
 * A stack is a state machine without sockets, clock or threads. The twin tells it the time and which of its datagrams
 * have arrived; it answers by sending others and by setting a timer at each end. What they hold stays with it: `tag`
 * names a datagram. A library exports `bbrgym_open_stack`. Upcalls return NULL, or a sentence that ends the run.
 */
#ifndef BBRGYM_TWIN_EXTERNAL_FLOW_H
#define BBRGYM_TWIN_EXTERNAL_FLOW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

    enum bbrgym_end
    {
        BBRGYM_SENDER,  /* of the data, in front of the bottleneck */
        BBRGYM_RECEIVER /* whose datagrams take the return path */
    };

#define BBRGYM_WITHOUT_END UINT64_MAX /* bytes that an application writes */
#define BBRGYM_NEVER INT64_MAX        /* a timer's time: it is off */

    /* The flow in the scenario; read it before open returns. */
    struct bbrgym_facts
    {
        const char* cc;
        uint64_t seed;           /* of the flow's own random stream */
        uint32_t datagram_bytes; /* of UDP payload with which an IP packet is a full one */
        uint64_t window_bytes;   /* of flow control, that it does not limit */
    };

    /* What the twin offers; valid until close. Calls are for upcalls, and for between two advances. */
    struct bbrgym_port
    {
        void* twin;
        uint64_t flow;
        /* A datagram leaves an end; NULL, or what is wrong with its size. */
        const char* (*send)(const struct bbrgym_port* port, enum bbrgym_end end, uint32_t bytes, uint64_t tag);
        /* The end's upcall `due` comes then, in place of a time set before; of a time that is not after now, 1 us
         * later. */
        void (*set_timer)(const struct bbrgym_port* port, enum bbrgym_end end, int64_t at_ns);
        /* So many bytes became readable in order at the receiver. */
        void (*readable)(const struct bbrgym_port* port, uint64_t bytes);
        void (*rtt_sample)(const struct bbrgym_port* port, int64_t rtt_ns);
    };

    /* NAN: not known. */
    struct bbrgym_sender_state
    {
        double cwnd_bytes, in_flight_bytes, pacing_Bps, srtt_us, min_rtt_us;
    };

    struct bbrgym_stack
    {
        void* self;
        uint32_t overhead_bytes; /* of IP and UDP headers, beside a datagram; 28 before open */
        /* The application writes; the first time it connects. 0: it ends; what is written is still sent. */
        const char* (*write)(void* self, int64_t now_ns, uint64_t bytes);
        const char* (*delivered)(void* self, int64_t now_ns, enum bbrgym_end end, uint64_t tag);
        const char* (*dropped)(void* self, int64_t now_ns, uint64_t tag);
        const char* (*due)(void* self, int64_t now_ns, enum bbrgym_end end);
        void (*state)(void* self, struct bbrgym_sender_state* state);
        void (*close)(void* self);
    };

    typedef const char* bbrgym_open_function(const struct bbrgym_facts* facts, const struct bbrgym_port* port,
                                             struct bbrgym_stack* stack);
    bbrgym_open_function bbrgym_open_stack;

#ifdef __cplusplus
}
#endif

#endif
