/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ngtcp2 0.12 with GnuTLS as an external flow of the twin (external_flow.h): a client sends, a server receives.
 * Random numbers that matter (connection IDs, ngtcp2's own) are of the flow's seed; those of TLS change no size.
 */
#include "external_flow.h"

#include <gnutls/x509.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NGTCP2_VERSION_NUM < 0x000c00 || NGTCP2_VERSION_NUM >= 0x000d00
#error "this needs ngtcp2 0.12"
#endif

enum { CID_BYTES = 8, MAX_DATAGRAM_BYTES = 1500, CHUNK_BYTES = 4096 };

static const uint64_t BEGIN_NS = 1000000000; /* of ngtcp2's clock: 0 has meanings of its own */
static const char ALPN[] = "bbrgym";
static const char PRIORITY[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:-GROUP-ALL:+GROUP-X25519:"
                               "%DISABLE_TLS13_COMPAT_MODE";

struct datagram {
    struct datagram *next, **link; /* of those in flight; or the next spare one */
    uint32_t bytes;
    uint8_t data[MAX_DATAGRAM_BYTES];
};

struct stack;

struct endpoint {
    ngtcp2_conn *conn; /* NULL: not yet */
    gnutls_session_t session;
    ngtcp2_crypto_conn_ref ref;
    struct stack *stack;
};

struct stack {
    const struct bbrgym_port *port;
    struct endpoint ends[2];
    gnutls_certificate_credentials_t credentials;
    uint64_t random; /* state of splitmix64 */
    ngtcp2_settings settings;
    uint64_t window_bytes;
    int64_t stream; /* -1: not open */
    uint64_t left_bytes;
    int is_endless;
    ngtcp2_conn_stat last;
    struct datagram *flying, *spare; /* malloc of so much is slow */
    char problem[160];
};

static const char *fail(struct stack *stack, const char *what, int code)
{
    snprintf(stack->problem, sizeof stack->problem, "ngtcp2: %s: %s", what,
             code <= NGTCP2_ERR_INVALID_ARGUMENT && code > -1000 ? ngtcp2_strerror(code) : gnutls_strerror(code));
    return stack->problem;
}

static void fill(uint64_t *state, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t z = *state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        bytes[i] = (uint8_t)(z ^ z >> 31);
    }
}

static void draw(uint8_t *bytes, size_t count, const ngtcp2_rand_ctx *context)
{
    fill(context->native_handle, bytes, count);
}

static void draw_cid(struct stack *stack, ngtcp2_cid *cid)
{
    uint8_t bytes[CID_BYTES];
    fill(&stack->random, bytes, sizeof bytes);
    ngtcp2_cid_init(cid, bytes, sizeof bytes);
}

static int new_cid(ngtcp2_conn *conn, ngtcp2_cid *cid, uint8_t *token, size_t bytes, void *user)
{
    struct endpoint *end = user;
    (void)conn;
    (void)bytes;
    draw_cid(end->stack, cid);
    fill(&end->stack->random, token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static int received(ngtcp2_conn *conn, uint32_t flags, int64_t stream, uint64_t offset, const uint8_t *data,
                    size_t bytes, void *user, void *stream_user)
{
    const struct bbrgym_port *port = ((struct endpoint *)user)->stack->port;
    (void)flags, (void)offset, (void)data, (void)stream_user;
    if (bytes > 0)
        port->readable(port, bytes);
    ngtcp2_conn_extend_max_stream_offset(conn, stream, bytes);
    ngtcp2_conn_extend_max_offset(conn, bytes);
    return 0;
}

static ngtcp2_conn *conn_of(ngtcp2_crypto_conn_ref *ref) { return ((struct endpoint *)ref->user_data)->conn; }

static const ngtcp2_callbacks CALLBACKS = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = received,
    .recv_retry = ngtcp2_crypto_recv_retry_cb,
    .rand = draw,
    .get_new_connection_id = new_cid,
    .update_key = ngtcp2_crypto_update_key_cb,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
};

static ngtcp2_path path_of_both(void)
{
    static struct sockaddr_in address = { .sin_family = AF_INET };
    const ngtcp2_addr both = { (ngtcp2_sockaddr *)&address, sizeof address };
    return (ngtcp2_path){ both, both, NULL };
}

/* Makes an end's connection; `cid` is the peer's, `original` the one that the client chose. */
static const char *make(struct stack *stack, enum bbrgym_end which, int64_t now_ns, const ngtcp2_cid *cid,
                        const ngtcp2_cid *original)
{
    struct endpoint *end = &stack->ends[which];
    const int is_server = which == BBRGYM_RECEIVER;
    const gnutls_datum_t alpn = { (unsigned char *)ALPN, sizeof ALPN - 1 };
    const ngtcp2_path path = path_of_both();
    ngtcp2_transport_params params;
    ngtcp2_cid own;
    int code = gnutls_init(&end->session, is_server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET : GNUTLS_CLIENT);
    if (code != 0 || (code = gnutls_priority_set_direct(end->session, PRIORITY, NULL)) != 0 ||
        (code = gnutls_credentials_set(end->session, GNUTLS_CRD_CERTIFICATE, stack->credentials)) != 0 ||
        (code = gnutls_alpn_set_protocols(end->session, &alpn, 1, GNUTLS_ALPN_MANDATORY)) != 0)
        return fail(stack, "TLS", code);
    end->stack = stack;
    end->ref = (ngtcp2_crypto_conn_ref){ conn_of, end };
    gnutls_session_set_ptr(end->session, &end->ref);
    code = is_server ? ngtcp2_crypto_gnutls_configure_server_session(end->session)
                     : ngtcp2_crypto_gnutls_configure_client_session(end->session);
    if (code != 0)
        return fail(stack, "TLS", code);
    ngtcp2_transport_params_default(&params);
    params.initial_max_streams_bidi = params.initial_max_streams_uni = 1;
    params.initial_max_data = params.initial_max_stream_data_uni = stack->window_bytes;
    params.initial_max_stream_data_bidi_local = params.initial_max_stream_data_bidi_remote = stack->window_bytes;
    stack->settings.initial_ts = BEGIN_NS + (uint64_t)now_ns;
    draw_cid(stack, &own);
    if (is_server) {
        params.original_dcid = *original;
        code = ngtcp2_conn_server_new(&end->conn, cid, &own, &path, NGTCP2_PROTO_VER_V1, &CALLBACKS, &stack->settings,
                                      &params, NULL, end);
    } else {
        code = ngtcp2_conn_client_new(&end->conn, cid, &own, &path, NGTCP2_PROTO_VER_V1, &CALLBACKS, &stack->settings,
                                      &params, NULL, end);
    }
    if (code != 0)
        return fail(stack, "a connection", code);
    ngtcp2_conn_set_tls_native_handle(end->conn, end->session);
    return NULL;
}

static void forget(struct stack *stack, struct datagram *one)
{
    *one->link = one->next;
    if (one->next)
        one->next->link = one->link;
    one->next = stack->spare;
    stack->spare = one;
}

/* Sends what an end may send and sets its timer. */
static const char *pump(struct stack *stack, enum bbrgym_end which, int64_t now_ns)
{
    static const uint8_t zeros[CHUNK_BYTES];
    ngtcp2_conn *conn = stack->ends[which].conn;
    const uint64_t now = BEGIN_NS + (uint64_t)now_ns;
    size_t burst_bytes = 0;
    if (which == BBRGYM_SENDER && stack->stream < 0 && ngtcp2_conn_get_handshake_completed(conn))
        ngtcp2_conn_open_uni_stream(conn, &stack->stream, NULL);
    for (int is_blocked = 0;;) {
        const uint64_t left = stack->is_endless ? CHUNK_BYTES : stack->left_bytes;
        const int has_data = which == BBRGYM_SENDER && stack->stream >= 0 && left > 0 && !is_blocked;
        const ngtcp2_vec data = { (uint8_t *)zeros, left < CHUNK_BYTES ? left : CHUNK_BYTES };
        struct datagram *one = stack->spare;
        if (one)
            stack->spare = one->next;
        else if (!(one = malloc(sizeof *one)))
            return "ngtcp2: no memory is left";
        one->link = &stack->flying;
        if ((one->next = stack->flying))
            one->next->link = &one->next;
        stack->flying = one;
        ngtcp2_ssize taken = -1;
        ngtcp2_pkt_info info;
        const ngtcp2_ssize bytes = ngtcp2_conn_writev_stream(
            conn, NULL, &info, one->data, stack->settings.max_tx_udp_payload_size, &taken,
            NGTCP2_WRITE_STREAM_FLAG_NONE, has_data ? stack->stream : -1, &data, has_data, now);
        if (bytes <= 0)
            forget(stack, one);
        if (bytes == NGTCP2_ERR_STREAM_DATA_BLOCKED && !is_blocked) {
            is_blocked = 1;
            continue;
        }
        if (bytes < 0)
            return fail(stack, "sending", (int)bytes);
        if (bytes == 0)
            break;
        if (taken > 0 && !stack->is_endless)
            stack->left_bytes -= (uint64_t)taken;
        one->bytes = (uint32_t)bytes;
        const char *problem = stack->port->send(stack->port, which, one->bytes, (uint64_t)(uintptr_t)one);
        if (problem)
            return problem;
        burst_bytes += (size_t)bytes;
        if (burst_bytes >= ngtcp2_conn_get_send_quantum(conn)) { /* the next burst is later, if the end paces */
            ngtcp2_conn_update_pkt_tx_time(conn, now);
            burst_bytes = 0;
        }
    }
    if (burst_bytes > 0)
        ngtcp2_conn_update_pkt_tx_time(conn, now);
    const uint64_t expiry = ngtcp2_conn_get_expiry(conn);
    stack->port->set_timer(stack->port, which, expiry == UINT64_MAX ? BBRGYM_NEVER : (int64_t)(expiry - BEGIN_NS));
    return NULL;
}

static const char *write_data(void *self, int64_t now_ns, uint64_t bytes)
{
    struct stack *stack = self;
    stack->is_endless = bytes == BBRGYM_WITHOUT_END;
    stack->left_bytes += stack->is_endless ? 0 : bytes;
    if (!stack->ends[BBRGYM_SENDER].conn) {
        ngtcp2_cid cid;
        draw_cid(stack, &cid);
        const char *problem = make(stack, BBRGYM_SENDER, now_ns, &cid, NULL);
        if (problem)
            return problem;
    }
    return pump(stack, BBRGYM_SENDER, now_ns);
}

static void sample_rtt(struct stack *stack)
{
    ngtcp2_conn_stat now;
    ngtcp2_conn_get_conn_stat(stack->ends[BBRGYM_SENDER].conn, &now);
    if (now.first_rtt_sample_ts != UINT64_MAX &&
        (now.latest_rtt != stack->last.latest_rtt || now.smoothed_rtt != stack->last.smoothed_rtt ||
         now.rttvar != stack->last.rttvar))
        stack->port->rtt_sample(stack->port, (int64_t)now.latest_rtt);
    stack->last = now;
}

static const char *delivered(void *self, int64_t now_ns, enum bbrgym_end which, uint64_t tag)
{
    struct stack *stack = self;
    const ngtcp2_path path = path_of_both();
    const ngtcp2_pkt_info info = { 0 };
    struct datagram *one = (struct datagram *)(uintptr_t)tag;
    if (!stack->ends[which].conn) {
        ngtcp2_pkt_hd header;
        const int code = ngtcp2_accept(&header, one->data, one->bytes);
        const char *problem = code != 0 ? fail(stack, "the first datagram", code)
                                        : make(stack, which, now_ns, &header.scid, &header.dcid);
        if (problem)
            return problem;
    }
    const int code =
        ngtcp2_conn_read_pkt(stack->ends[which].conn, &path, &info, one->data, one->bytes, BEGIN_NS + (uint64_t)now_ns);
    forget(stack, one);
    if (code != 0)
        return fail(stack, "receiving", code);
    if (which == BBRGYM_SENDER)
        sample_rtt(stack);
    return pump(stack, which, now_ns);
}

static const char *dropped(void *self, int64_t now_ns, uint64_t tag)
{
    (void)now_ns;
    forget(self, (struct datagram *)(uintptr_t)tag);
    return NULL;
}

static const char *due(void *self, int64_t now_ns, enum bbrgym_end which)
{
    struct stack *stack = self;
    const int code = ngtcp2_conn_handle_expiry(stack->ends[which].conn, BEGIN_NS + (uint64_t)now_ns);
    return code != 0 ? fail(stack, "a timer", code) : pump(stack, which, now_ns);
}

static void state_of(void *self, struct bbrgym_sender_state *state)
{
    struct stack *stack = self;
    const ngtcp2_conn *conn = stack->ends[BBRGYM_SENDER].conn;
    if (!conn)
        return;
    ngtcp2_conn_stat now;
    ngtcp2_conn_get_conn_stat((ngtcp2_conn *)conn, &now);
    state->cwnd_bytes = (double)now.cwnd;
    state->in_flight_bytes = (double)now.bytes_in_flight;
    state->pacing_Bps = now.pacing_rate * 1e9;
    if (now.first_rtt_sample_ts != UINT64_MAX) {
        state->srtt_us = (double)now.smoothed_rtt / 1e3;
        state->min_rtt_us = (double)now.min_rtt / 1e3;
    }
}

static void close_stack(void *self)
{
    struct stack *stack = self;
    for (int which = 0; which < 2; which++) {
        if (stack->ends[which].conn)
            ngtcp2_conn_del(stack->ends[which].conn);
        if (stack->ends[which].session)
            gnutls_deinit(stack->ends[which].session);
    }
    if (stack->credentials)
        gnutls_certificate_free_credentials(stack->credentials);
    while (stack->flying)
        forget(stack, stack->flying);
    for (struct datagram *one; (one = stack->spare); free(one))
        stack->spare = one->next;
    free(stack);
}

/* A certificate that always has the same size. */
static int certify(struct stack *stack)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    int code = gnutls_certificate_allocate_credentials(&stack->credentials);
    if (code != 0 || (code = gnutls_x509_privkey_init(&key)) != 0)
        return code;
    if ((code = gnutls_x509_crt_init(&certificate)) == 0) {
        if ((code = gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, 256, 0)) == 0 &&
            (code = gnutls_x509_crt_set_version(certificate, 3)) == 0 &&
            (code = gnutls_x509_crt_set_serial(certificate, "\1", 1)) == 0 &&
            (code = gnutls_x509_crt_set_activation_time(certificate, 1700000000)) == 0 &&
            (code = gnutls_x509_crt_set_expiration_time(certificate, 2000000000)) == 0 &&
            (code = gnutls_x509_crt_set_key(certificate, key)) == 0 &&
            (code = gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_UNKNOWN, 0)) == 0)
            code = gnutls_certificate_set_x509_key(stack->credentials, &certificate, 1, key);
        gnutls_x509_crt_deinit(certificate);
    }
    gnutls_x509_privkey_deinit(key);
    return code;
}

__attribute__((visibility("default"))) const char *
bbrgym_open_stack(const struct bbrgym_facts *facts, const struct bbrgym_port *port, struct bbrgym_stack *opened)
{
    static const struct {
        const char *name;
        ngtcp2_cc_algo algorithm;
    } controls[] = { { "reno", NGTCP2_CC_ALGO_RENO },
                     { "cubic", NGTCP2_CC_ALGO_CUBIC },
                     { "bbr", NGTCP2_CC_ALGO_BBR },
                     { "bbr2", NGTCP2_CC_ALGO_BBR2 } };
    struct stack *stack = calloc(1, sizeof *stack);
    if (!stack)
        return "ngtcp2: no memory is left";
    *opened = (struct bbrgym_stack){ stack,      opened->overhead_bytes, write_data, delivered, dropped, due, state_of,
                                     close_stack };
    stack->port = port;
    stack->random = facts->seed;
    stack->window_bytes = facts->window_bytes;
    stack->stream = -1;
    ngtcp2_settings_default(&stack->settings);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (strcmp(controls[i].name, facts->cc) == 0)
            stack->settings.cc_algo = controls[i].algorithm;
    stack->settings.max_tx_udp_payload_size = facts->datagram_bytes;
    stack->settings.no_tx_udp_payload_size_shaping = 1;
    stack->settings.no_pmtud = 1;
    stack->settings.handshake_timeout = UINT64_MAX;
    stack->settings.rand_ctx.native_handle = &stack->random;
    const int code = certify(stack);
    return code != 0 ? fail(stack, "a certificate", code) : NULL;
}
