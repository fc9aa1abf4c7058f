/* Strikes at every process called criu, until it is asked to end:
 *
 *   strike_criu NUMBER   sends it a signal
 *   strike_criu          makes the kernel kill it while everything in the session is frozen: names it as the receiver
 *                        of SIGKILL on any access to a folder that a capture reads (fcntl(2), F_NOTIFY)
 *
 * Records each strike that succeeded in /tmp/hit.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WATCHED "/dev/shm/watched"

static void make_watched(void)
{
	FILE *file;

	mkdir(WATCHED, 0755);
	file = fopen(WATCHED "/file", "w");
	fputs("read me", file);
	fclose(file);
}

/* Once for each: a second time would briefly remove the name of the last one. */
static int watch(pid_t pid)
{
	static int folder = -1;
	static pid_t last;

	if (pid == last)
		return 0;
	if (folder >= 0)
		close(folder);
	folder = open(WATCHED, O_RDONLY | O_DIRECTORY);
	if (fcntl(folder, F_SETSIG, SIGKILL) != 0 || fcntl(folder, F_SETOWN, pid) != 0 ||
	    fcntl(folder, F_NOTIFY, DN_ACCESS | DN_MODIFY | DN_ATTRIB | DN_MULTISHOT) != 0)
		return 0;
	last = pid;
	return 1;
}

static int is_criu(const char *pid)
{
	char path[64], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	if (fgets(comm, sizeof(comm), file) == NULL)
		comm[0] = '\0';
	fclose(file);
	return strcmp(comm, "criu\n") == 0;
}

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : 0;
	struct dirent *entry;
	FILE *hit;
	DIR *proc;

	if (number == 0)
		make_watched();
	while (access("/tmp/enough", F_OK) != 0) {
		proc = opendir("/proc");
		while ((entry = readdir(proc)) != NULL) {
			pid_t pid = atoi(entry->d_name);

			if (!is_criu(entry->d_name) || !(number != 0 ? kill(pid, number) == 0 : watch(pid)))
				continue;
			hit = fopen("/tmp/hit", "a");
			fputs("x", hit);
			fclose(hit);
		}
		closedir(proc);
	}
	return 0;
}
