/* Lets sshd work in any image: it is added to what sshd and its parts load, before the C library.
 *
 * It replaces two calls of the C library, for sshd alone; what a user starts does not load it.
 *
 *   getpwnam  An image may lack the account `sshd`, whose rights the part has that reads what a stranger
 *             sends; and the account `holdfast` stands for the user of the session, whatever its name.
 *   getspnam  An account without a password has `!` in its place, which sshd takes for an account that is
 *             closed. No password is ever asked for here: the caller's key opens all accounts of a session.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <shadow.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the session's user is called, and the variables in which the supervisor describes it. */
#define SESSION_USER "holdfast"
#define NOBODY 65534

static char *described(const char *variable, char *otherwise)
{
    char *value = getenv(variable);
    return value != NULL ? value : otherwise;
}

/* Gives a shell to an account whose own one the image lacks. */
static struct passwd *with_shell(struct passwd *found)
{
    if (found != NULL && (found->pw_shell == NULL || access(found->pw_shell, X_OK) != 0))
        found->pw_shell = described("HOLDFAST_SSH_SHELL", found->pw_shell);
    return found;
}

struct passwd *getpwnam(const char *name)
{
    static struct passwd *(*next)(const char *);
    static struct passwd sshd = {
        .pw_name = "sshd", .pw_passwd = "*", .pw_uid = NOBODY, .pw_gid = NOBODY,
        .pw_gecos = "", .pw_dir = "/run/sshd", .pw_shell = "/usr/sbin/nologin",
    };
    static struct passwd user;

    if (next == NULL)
        next = (struct passwd *(*)(const char *))dlsym(RTLD_NEXT, "getpwnam");
    if (strcmp(name, SESSION_USER) == 0 && getenv("HOLDFAST_SSH_USER") != NULL) {
        user = (struct passwd){
            .pw_name = getenv("HOLDFAST_SSH_USER"), .pw_passwd = "*", .pw_gecos = "",
            .pw_uid = (uid_t)strtoul(described("HOLDFAST_SSH_UID", "65534"), NULL, 10),
            .pw_gid = (gid_t)strtoul(described("HOLDFAST_SSH_GID", "65534"), NULL, 10),
            .pw_dir = described("HOLDFAST_SSH_HOME", "/"),
            .pw_shell = described("HOLDFAST_SSH_SHELL", "/bin/sh"),
        };
        return &user;
    }
    struct passwd *found = next(name);
    if (found == NULL && strcmp(name, "sshd") == 0)
        return &sshd;
    return with_shell(found);
}

struct spwd *getspnam(const char *name)
{
    static struct spwd *(*next)(const char *);
    if (next == NULL)
        next = (struct spwd *(*)(const char *))dlsym(RTLD_NEXT, "getspnam");
    struct spwd *found = next(name);
    if (found != NULL && found->sp_pwdp != NULL && found->sp_pwdp[0] == '!')
        found->sp_pwdp = "*";
    return found;
}
