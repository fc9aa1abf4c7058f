/* What every probe uses: prepare, be captured, check. */
#ifndef PROBE_H
#define PROBE_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the probe, saying where and why, unless the condition holds. */
#define CHECK(condition) ((condition) ? (void)0 : failed(__FILE__, __LINE__, #condition))

void failed(const char *file, int line, const char *what) __attribute__((noreturn));

/* All is prepared: say so, and wait until asked to check, before or after a capture. */
void captured(void);

/* A new file of its own for this probe, and its path. */
const char *path_of(const char *suffix);

struct probe {
	const char *name;
	void (*run)(void);
};

extern const struct probe FILE_PROBES[], SIGNAL_PROBES[], PROCESS_PROBES[], MEMORY_PROBES[], CHANNEL_PROBES[];

#endif
