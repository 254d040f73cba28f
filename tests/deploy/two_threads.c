/* SPDX-FileCopyrightText: the Cordee contributors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: two_threads NET OTHER THREADS
 *
 * Two threads open, use and close a network each, at once. Fails if the logits of a round differ
 * from those of the first one, which each has alone, or if a thread has the other one's error. */
#include <cordee_infer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { samples = 3, rounds = 20 };

static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

struct user {
  const char* path;
  int threads;
  const char* missing; /* a file that is not there */
  const char* failure;
};

static int32_t* predict(cordee_infer_network* net) {
  const size_t size = samples * (size_t)cordee_infer_channels(net) *
                      (size_t)cordee_infer_height(net) * (size_t)cordee_infer_width(net);
  int32_t* logits = malloc(samples * (size_t)cordee_infer_classes(net) * sizeof *logits);
  uint8_t* images = malloc(size);
  size_t i;
  if (images == NULL || logits == NULL) abort();
  for (i = 0; i < size; ++i) images[i] = (uint8_t)(97 * i);
  if (cordee_infer_predict(net, samples, images, logits) != 0) {
    free(logits);
    logits = NULL;
  }
  free(images);
  return logits;
}
static const char* use(const struct user* u) {
  cordee_infer_network* net;
  int32_t *first, *again;
  int round;
  pthread_mutex_lock(&alone);
  net = cordee_infer_open(u->path, u->threads);
  first = net == NULL ? NULL : predict(net);
  pthread_mutex_unlock(&alone);
  for (round = 0; round < rounds && first != NULL; ++round) {
    if (cordee_infer_open(u->missing, 1) != NULL) return "a file that is not there was opened";
    if (round % 5 == 4) {
      cordee_infer_close(net);
      net = cordee_infer_open(u->path, u->threads);
      if (net == NULL) return "a network was not opened again";
    }
    again = predict(net);
    if (again == NULL) return "a network failed";
    if (memcmp(first, again, (size_t)cordee_infer_classes(net) * samples * sizeof *first) != 0)
      return "the logits differ";
    free(again);
    if (strstr(cordee_infer_error(), u->missing) == NULL) return "another thread's error";
  }
  if (first == NULL) return "a network was not opened";
  free(first);
  cordee_infer_close(net);
  return NULL;
}
static void* run(void* argument) {
  struct user* u = argument;
  u->failure = use(u);
  return NULL;
}

int main(int argc, char** argv) {
  struct user a = {NULL, 0, "/none/of/the/first", NULL}, b = {NULL, 0, "/none/of/the/second", NULL};
  pthread_t first, second;
  if (argc != 4) return 2;
  a.path = argv[1];
  b.path = argv[2];
  a.threads = b.threads = atoi(argv[3]);
  if (pthread_create(&first, NULL, run, &a) != 0 || pthread_create(&second, NULL, run, &b) != 0)
    return 2;
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  if (strcmp(cordee_infer_error(), "") != 0) return 5; /* of this thread */
  if (a.failure != NULL) printf("%s: %s\n", a.path, a.failure);
  if (b.failure != NULL) printf("%s: %s\n", b.path, b.failure);
  return a.failure == NULL && b.failure == NULL ? 0 : 4;
}
