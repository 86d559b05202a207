/* tools/nacre/open.c: environment, model and session as the arguments say; Ctrl-C. */
#include "cli.h"

#include <signal.h>
#include <string.h>

int open_env(const char *command, const common *c, nacre_env **out) {
    nacre_error err;
    nacre_env *env;
    if (!c->model) return cli_usage(command, "which model?");
    if (nacre_env_create(c->threads, &env, &err) != NACRE_OK) return cli_error(&err);
    for (int i = 0; i < c->plugins.n; i++)
        if (nacre_env_load_plugin(env, c->plugins.v[i], &err) != NACRE_OK) {
            nacre_env_release(env);
            return cli_error(&err);
        }
    *out = env;
    return EXIT_DONE;
}

int open_model(const char *command, const common *c, nacre_env *env, nacre_model **out) {
    nacre_error err;
    (void)command;
    return nacre_model_load(env, c->model, out, &err) == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

static int set_pair(const char *command, nacre_options *o, const char *pair) {
    char key[64];
    nacre_error err;
    const char *eq = strchr(pair, '=');
    if (!eq || (size_t)(eq - pair) >= sizeof key) return cli_usage(command, "--set wants KEY=VALUE, got '%s'", pair);
    snprintf(key, sizeof key, "%.*s", (int)(eq - pair), pair);
    nacre_code code = nacre_options_set(o, key, eq + 1, &err);
    if (code == NACRE_ARGUMENT) return cli_usage(command, "--set %s: %s", pair, err.text);
    return code == NACRE_OK ? EXIT_DONE : cli_error(&err);
}

static int set_options(const char *command, const common *c, const char *const *more, const list *more_sets,
                       nacre_options *o) {
    nacre_error err;
    int code = EXIT_DONE;
    if (c->device && nacre_options_set(o, "device", c->device, &err) != NACRE_OK) return cli_error(&err);
    if (c->strict && nacre_options_set(o, "strict", "on", &err) != NACRE_OK) return cli_error(&err);
    for (int i = 0; code == EXIT_DONE && i < c->sets.n; i++) code = set_pair(command, o, c->sets.v[i]);
    for (int i = 0; code == EXIT_DONE && more && more[i]; i++) code = set_pair(command, o, more[i]);
    for (int i = 0; code == EXIT_DONE && more_sets && i < more_sets->n; i++)
        code = set_pair(command, o, more_sets->v[i]);
    return code;
}

int open_session(const char *command, const common *c, nacre_env *env, nacre_model *takes, const char *const *more,
                 const list *more_sets, nacre_session **out) {
    nacre_error err;
    nacre_options *o;
    if (nacre_options_create(&o, &err) != NACRE_OK) {
        nacre_model_release(takes);
        return cli_error(&err);
    }
    int code = set_options(command, c, more, more_sets, o);
    if (code != EXIT_DONE)
        nacre_model_release(takes);
    else if (nacre_session_create(env, takes, o, out, &err) != NACRE_OK)
        code = cli_error(&err);
    nacre_options_release(o);
    return code;
}

int open_all(const char *command, const common *c, const char *const *more, opened *out) {
    nacre_model *m;
    *out = (opened){NULL, NULL};
    int code = open_env(command, c, &out->env);
    if (code == EXIT_DONE) code = open_model(command, c, out->env, &m);
    if (code == EXIT_DONE) code = open_session(command, c, out->env, m, more, NULL, &out->session);
    if (code != EXIT_DONE) open_close(out);
    return code;
}

void open_close(opened *o) {
    nacre_session_release(o->session);
    nacre_env_release(o->env);
    *o = (opened){NULL, NULL};
}

/* ---- Ctrl-C ---- */

static nacre_run_options *volatile cancelled_by_signal;

static void on_interrupt(int sig) {
    nacre_run_options *r = cancelled_by_signal;
    if (r) nacre_run_options_cancel(r, 1);
    signal(sig, SIG_DFL); /* a second one ends the process */
}

int cancel_options(nacre_run_options **out) {
    nacre_error err;
    if (nacre_run_options_create(out, &err) != NACRE_OK) return cli_error(&err);
    cancelled_by_signal = *out;
    signal(SIGINT, on_interrupt);
    return EXIT_DONE;
}

void cancel_release(nacre_run_options *r) {
    signal(SIGINT, SIG_DFL);
    cancelled_by_signal = NULL;
    nacre_run_options_release(r);
}
