/* What the parts of the preloaded library know of each other. */
#ifndef HOLDFAST_GUARD_H
#define HOLDFAST_GUARD_H

/* Note what is to be left out of a capture; NULL: nothing is captured. */
void read_substitutions(const char *spec);

/* An open fdinfo of what takes the place of the descriptor that `path` ("fdinfo/N" below a process's
 * folder `directory`) names; -1 if that is kept.
 */
int substituted_fdinfo(int directory, const char *path);

#endif
