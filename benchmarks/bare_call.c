/* How long the C function itself takes: called in a loop from C, no Python anywhere.

   All arguments are pointers, so one prototype serves every function of up to eight of them. */

#include <stdint.h>
#include <time.h>

typedef int (*function8)(void *, void *, void *, void *, void *, void *, void *, void *);

/* Nanoseconds per call over `count` calls, or -status of the first call that fails. */
double bare_call(function8 function, void **a, int64_t count) {
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int64_t i = 0; i < count; i++) {
        int status = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
        if (status != 0)
            return -status;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (1e9 * (ended.tv_sec - began.tv_sec) + (ended.tv_nsec - began.tv_nsec)) / count;
}
