/* Runs one probe: `probe NAME`. It writes "ready", later "PASS" or "FAIL:..." to NAME below PROBES. */
#include "probe.h"

#define PROBES "/srv/probes/"

static const char *name;
static volatile sig_atomic_t asked;

static void say(const char *text)
{
	char path[128], next[136];
	FILE *out;

	snprintf(path, sizeof(path), PROBES "%s", name);
	snprintf(next, sizeof(next), "%s.next", path);
	out = fopen(next, "w");
	if (out == NULL)
		_exit(3);
	fprintf(out, "%s\n", text);
	fclose(out);
	rename(next, path);
}

void failed(const char *file, int line, const char *what)
{
	char text[512];

	snprintf(text, sizeof(text), "FAIL:%s:%d: %s (errno %d, %s)", file, line, what, errno, strerror(errno));
	say(text);
	_exit(1);
}

static void ask(int number)
{
	(void)number;
	asked = 1;
}

void captured(void)
{
	struct sigaction action = {.sa_handler = ask};
	sigset_t block, before;

	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, &before);
	sigdelset(&before, SIGUSR1);
	sigaction(SIGUSR1, &action, NULL);
	say("ready");
	while (!asked)
		sigsuspend(&before);
}

const char *path_of(const char *suffix)
{
	static char paths[8][128];
	static int next;

	snprintf(paths[next % 8], sizeof(paths[0]), "/srv/files/%s.%s", name, suffix);
	return paths[next++ % 8];
}

int main(int count, char **arguments)
{
	const struct probe *groups[] = {FILE_PROBES, SIGNAL_PROBES, PROCESS_PROBES, MEMORY_PROBES, CHANNEL_PROBES};
	const struct probe *probe;
	size_t i;

	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (probe = groups[i]; probe->name != NULL; probe++) {
			if (count < 2) {
				puts(probe->name);
			} else if (strcmp(probe->name, arguments[1]) == 0) {
				name = probe->name;
				probe->run();
				say("PASS");
				return 0;
			}
		}
	return count < 2 ? 0 : 2;
}
