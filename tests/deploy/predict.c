/* SPDX-FileCopyrightText: the Cordee contributors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Usage: predict NET SAMPLES THREADS
 *
 * Prints the instructions, the shape and the logits of SAMPLES images, whose i-th byte is 97 i, or
 * the error. A program in C, as those that deploy are. */
#include <cordee_infer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(void) {
  printf("error: %s\n", cordee_infer_error());
  return 3;
}
/* Whether the last call failed with this message. */
static int refused(int failed, const char* message) {
  if (failed && strcmp(cordee_infer_error(), message) == 0) return 1;
  printf("expected \"%s\", got \"%s\"\n", message, failed ? cordee_infer_error() : "no error");
  return 0;
}

/* Arguments without sense are errors. */
static int refuses_arguments(cordee_infer_network* net, const uint8_t* images, int32_t* logits,
                             float* reals, const char* path) {
  const size_t all = (size_t)-1;
  return refused(cordee_infer_predict(NULL, 1, images, logits),
                 "cordee_infer_predict: the network is NULL") &&
         refused(cordee_infer_predict_float(NULL, 1, images, reals),
                 "cordee_infer_predict_float: the network is NULL") &&
         refused(cordee_infer_predict(net, 1, NULL, logits),
                 "cordee_infer_predict: images or logits are NULL") &&
         refused(cordee_infer_predict_float(net, 1, images, NULL),
                 "cordee_infer_predict_float: images or logits are NULL") &&
         refused(cordee_infer_predict(net, all, images, logits),
                 "cordee_infer_predict: more samples than there can be memory for") &&
         refused(cordee_infer_predict_float(net, all / 2 / sizeof *reals, images, reals),
                 "cordee_infer_predict_float: more samples than there can be memory for") &&
         refused(cordee_infer_open(NULL, 1) == NULL, "cordee_infer_open: the path is NULL") &&
         refused(cordee_infer_open(path, -1) == NULL,
                 "cordee_infer_open: -1 threads; they are 0, for all processors, to 4096") &&
         refused(cordee_infer_open(path, 4097) == NULL,
                 "cordee_infer_open: 4097 threads; they are 0, for all processors, to 4096");
}
static int null_has_nothing(void) {
  return cordee_infer_channels(NULL) == 0 && cordee_infer_height(NULL) == 0 &&
         cordee_infer_width(NULL) == 0 && cordee_infer_classes(NULL) == 0 &&
         cordee_infer_logit_step(NULL) == 0 && strcmp(cordee_infer_isa(NULL), "") == 0;
}
/* A path that is longer than a message leaves the reason in it, and whole characters. */
static int long_path_has_a_reason(void) {
  static const char letter[] = "\xC3\xA4"; /* of two bytes */
  char path[3001], reason[256];
  size_t i, length;
  const char* message;
  if (cordee_infer_open("/none", 1) != NULL) return 0;
  message = strstr(cordee_infer_error(), "/none");
  if (message == NULL || strlen(message + 5) < 10) return 0;
  snprintf(reason, sizeof reason, "%s", message + 5);
  for (length = 1022; length <= 3000; length += 1 + length / 9) {
    path[0] = '/';
    for (i = 1; i < length; ++i) path[i] = i % 200 == 0 ? '/' : letter[(i + length / 2) % 2];
    path[length] = '\0';
    if (cordee_infer_open(path, 1) != NULL) return 0;
    message = cordee_infer_error();
    i = strlen(message);
    if (i < 1020 || i > 1023 || strcmp(message + i - strlen(reason), reason) != 0) return 0;
    if (strstr(message, "\xC3 ") != NULL || strstr(message, " \xA4") != NULL) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  cordee_infer_network* net;
  uint8_t* images;
  int32_t* logits;
  float* reals;
  size_t i, samples, pixels, classes;
  if (argc != 4 || cordee_infer_abi() != CORDEE_INFER_ABI) return 2;
  if (strcmp(cordee_infer_error(), "") != 0) return 2;
  net = cordee_infer_open(argv[1], atoi(argv[3]));
  if (net == NULL) return fail();
  samples = (size_t)atoi(argv[2]);
  classes = (size_t)cordee_infer_classes(net);
  pixels = (size_t)cordee_infer_channels(net) * (size_t)cordee_infer_height(net) *
           (size_t)cordee_infer_width(net);
  printf("%s %d %d %d %d\n", cordee_infer_isa(net), cordee_infer_channels(net),
         cordee_infer_height(net), cordee_infer_width(net), cordee_infer_classes(net));
  images = malloc(samples * pixels + 1);
  logits = malloc(samples * classes * sizeof *logits + 1);
  reals = malloc(samples * classes * sizeof *reals + 1);
  if (images == NULL || logits == NULL || reals == NULL) return 2;
  for (i = 0; i < samples * pixels; ++i) images[i] = (uint8_t)(97 * i);
  if (!refuses_arguments(net, images, logits, reals, argv[1])) return 5;
  if (!null_has_nothing()) return 6;
  if (!long_path_has_a_reason()) return 7;
  if (cordee_infer_predict(net, samples, images, logits) != 0) return fail();
  if (cordee_infer_predict_float(net, samples, images, reals) != 0) return fail();
  for (i = 0; i < samples * classes; ++i) {
    printf("%d\n", (int)logits[i]);
    if (reals[i] != (float)(logits[i] * cordee_infer_logit_step(net))) return 4;
  }
  cordee_infer_close(net);
  cordee_infer_close(NULL);
  free(images);
  free(logits);
  free(reals);
  return 0;
}
