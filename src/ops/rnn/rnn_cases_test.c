/* ops/rnn/rnn_cases_test.c: the cases of the rnn family (ops/cases.h), the tests that run them, types and refusals. */
#include "ops/cases_testing.h"

#include "tests/graph_testing.h"

extern const nc_case nc_rnn_cases[];

#define LAYER(opset, op, g, dirs, more, inputs, outs)                                                      \
    "<opset: \"\" " opset "> g (float[t,b,3] x, float[" dirs "," g ",3] w, float[" dirs "," g ",5] r" more \
    ") => (" outs ") { " outs " = " op "(x, w, r" inputs ") }"
#define VALUE     \
    {             \
        { -1, 1 } \
    }

const nc_case nc_rnn_cases[] = {
    {"rnn", LAYER("22", "RNN", "5", "1", "", "", "y, h"), VALUE},
    {"rnn_relu_reverse",
     LAYER("14", "RNN<activations = [\"Relu\"], direction = \"reverse\", clip = 0.5>", "5", "1", ", float[1,10] bias",
           ", bias", "y, h"),
     VALUE},
    {"gru_lengths",
     "<opset: \"\" 22> g (float[4,3,2] x, float[2,9,2] w, float[2,9,3] r, float[2,18] q, float[2,3,3] h0) => (y, h) "
     "<const int32[3] n = {2, 0, 4}> {"
     " y, h = GRU<direction = \"bidirectional\", linear_before_reset = 1>(x, w, r, q, n, h0) }",
     VALUE},
    {"rnn_empty",
     "<opset: \"\" 22> g (float[0,2,2] x, float[1,3,2] w, float[1,3,3] r) => (y, h) { y, h = RNN(x, w, r) }", VALUE},
    {"gru_one", "<opset: \"\" 22> g (float[1,1,1] x, float[1,3,1] w, float[1,3,1] r) => (y, h) { y, h = GRU(x, w, r) }",
     VALUE},
    {"rnn_old", LAYER("1", "RNN<output_sequence = 1>", "5", "1", "", "", "y, h"), VALUE},
    {"gru", LAYER("22", "GRU", "15", "1", ", float[1,30] bias", ", bias", "y, h"), VALUE},
    {"gru_before_reset",
     LAYER("7", "GRU<linear_before_reset = 1>", "15", "1", ", float[1,30] bias, float[1,b,5] h0", ", bias, , h0",
           "y, h"),
     VALUE},
    {"gru_both_ways", LAYER("22", "GRU<direction = \"bidirectional\">", "15", "2", "", "", "y, h"), VALUE},
    {"lstm", LAYER("22", "LSTM", "20", "1", ", float[1,40] bias", ", bias", "y, h, c"), VALUE},
    {"lstm_all",
     LAYER("14", "LSTM<direction = \"bidirectional\">", "20", "2",
           ", float[2,40] bias, float[2,b,5] h0, float[2,b,5] c0, float[2,15] p", ", bias, , h0, c0, p", "y, h, c"),
     VALUE},
    {"lstm_lengths",
     "<opset: \"\" 22> g (float[4,3,2] x, float[2,12,2] w, float[2,12,3] r) => (y, h, c) <const int32[3] n = {2, 0, "
     "4}> {"
     " y, h, c = LSTM<direction = \"bidirectional\">(x, w, r, , n) }",
     VALUE},
    {"lstm_batch_first",
     "<opset: \"\" 22> g (float[b,t,2] x, float[1,12,2] w, float[1,12,3] r) => (y, h, c) {"
     " y, h, c = LSTM<layout = 1, input_forget = 1>(x, w, r) }",
     VALUE},
    {"lstm_last_only",
     "<opset: \"\" 22> g (float[t,b,2] x, float[1,12,2] w, float[1,12,3] r) => (h) { , h = LSTM(x, w, r) }", VALUE,
     NC_CASE_NO_GRAD},
    {"lstm_empty",
     "<opset: \"\" 22> g (float[0,2,2] x, float[1,12,2] w, float[1,12,3] r) => (y, h, c) {"
     " y, h, c = LSTM(x, w, r) }",
     VALUE},
    {"lstm_no_rows",
     "<opset: \"\" 22> g (float[3,0,2] x, float[1,12,2] w, float[1,12,3] r) => (y, h, c) {"
     " y, h, c = LSTM(x, w, r) }",
     VALUE},
    {"gru_half",
     "<opset: \"\" 22> g (float16[t,2,2] x, float16[1,9,2] w, float16[1,9,3] r) => (y, h) { y, h = GRU(x, w, r) }",
     VALUE},
    {"lstm_bfloat16",
     "<opset: \"\" 22> g (bfloat16[t,2,2] x, bfloat16[1,12,2] w, bfloat16[1,12,3] r) => (y, h) { y, h = LSTM(x, w, r) "
     "}",
     VALUE},
    {0}};

TEST(rnn_values) { nc_cases_check_values(nc_rnn_cases); }
TEST(rnn_gradients) { nc_cases_check_gradients(nc_rnn_cases); }
TEST(rnn_isas) { nc_cases_check_isas(nc_rnn_cases); }

TEST(rnn_types) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(),
                             "<opset: \"\" 14> g (float[t,b,3] x, float[2,20,3] w, float[2,20,5] r) => (y, h, c) {"
                             " y, h, c = LSTM<direction = \"bidirectional\">(x, w, r) }");
    REQUIRE(m != NULL);
    CHECK_TYPE(nc_graph_find(m->main, "y")->type, "float[t,2,b,5]");
    CHECK_TYPE(nc_graph_find(m->main, "h")->type, "float[2,b,5]");
    CHECK_TYPE(nc_graph_find(m->main, "c")->type, "float[2,b,5]");
    nc_model_destroy(m);
    m = test_model(&w, nc_ops_registry(),
                   "<opset: \"\" 14> g (float[b,t,3] x, float[1,15,3] w, float[1,15,5] r) => (y, h) {"
                   " y, h = GRU<layout = 1>(x, w, r) }");
    REQUIRE(m != NULL);
    CHECK_TYPE(nc_graph_find(m->main, "y")->type, "float[b,t,1,5]");
    CHECK_TYPE(nc_graph_find(m->main, "h")->type, "float[b,1,5]");
    nc_model_destroy(m);
    nc_work_release(&w);
}

TEST(rnn_refusals) {
#define GRU(attrs, w, r) \
    "<opset: \"\" 14> g (float[t,b,3] x, float" w " w, float" r " r) => (y) { y = GRU" attrs "(x, w, r) }"
    CHECK_REFUSED(GRU("", "[1,15,4]", "[1,15,5]"), NC_E_SHAPE, "W has 4 at dim 2, expected 3");
    CHECK_REFUSED(GRU("", "[1,15,3]", "[1,12,5]"), NC_E_SHAPE, "R has 12 at dim 1, expected 15");
    CHECK_REFUSED(GRU("", "[15,3]", "[1,15,5]"), NC_E_SHAPE, "W has 2 dims, expected 3");
    CHECK_REFUSED(GRU("<direction = \"bidirectional\">", "[1,15,3]", "[1,15,5]"), NC_E_SHAPE,
                  "W has 1 at dim 0, expected 2");
    CHECK_REFUSED(GRU("<direction = \"up\">", "[1,15,3]", "[1,15,5]"), NC_E_BAD_GRAPH, "direction is 'up'");
    CHECK_REFUSED(GRU("<activations = [\"Tanh\"]>", "[1,15,3]", "[1,15,5]"), NC_E_BAD_GRAPH,
                  "1 activations, expected 2");
    CHECK_REFUSED(GRU("<activations = [\"Tanh\", \"Tan\"]>", "[1,15,3]", "[1,15,5]"), NC_E_UNSUPPORTED, "'Tan'");
#undef GRU
}
