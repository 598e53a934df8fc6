/* The kernels as functions of Python: arrays in, new arrays out; what comes in is never written. */
#include "arrays.h"

#include "descend.h"
#include "drawing.h"
#include "network.h"
#include "posterior.h"
#include "processor.h"

/* Changes with every signature below, so that an extension of other sources is not used. */
#define INTERFACE 2

#define KERNEL(name) static PyObject *name(PyObject *module, PyObject *const *given, Py_ssize_t given_count)
#define TAKES(kinds)                                                                                                   \
    (void)module;                                                                                                      \
    Arrays arrays = {.count = 0};                                                                                      \
    Argument in[sizeof kinds];                                                                                         \
    if (!taken(&arrays, __func__, kinds, given, given_count, in))                                                      \
        return failed(&arrays);

/* descend(weights, bias, head, head_bias, contexts, arms, rewards, steps, rate, keep, stop_loss)
   -> weights', bias', head', head_bias', taken, loss */
KERNEL(descend) {
    TAKES("31112i1sddd")
    PyArrayObject *weights = in[0].array, *bias = in[1].array, *head = in[2].array, *head_bias = in[3].array;
    PyArrayObject *contexts = in[4].array, *arms = in[5].array, *rewards = in[6].array;
    const Size n_arms = length(weights, 0), features = length(weights, 1), units = length(weights, 2);
    const Size rows = length(contexts, 0);
    if (length(bias, 0) != units || length(head, 0) != units || length(head_bias, 0) != 1)
        return refused(&arrays, "bias and head must have a number for each hidden unit, and head_bias one");
    if (length(contexts, 1) != features || length(arms, 0) != rows || length(rewards, 0) != rows)
        return refused(&arrays, "contexts must be (n, features), with an arm and a reward for each");
    if (!all_below(arms, n_arms))
        return refused(&arrays, "an arm has no block of weights");
    PyArrayObject *new_weights, *new_bias, *new_head, *new_head_bias, *hidden;
    if (!(new_weights = copy_of(&arrays, weights)) || !(new_bias = copy_of(&arrays, bias)) ||
        !(new_head = copy_of(&arrays, head)) || !(new_head_bias = copy_of(&arrays, head_bias)) ||
        !(hidden = new_vector(&arrays, units)))
        return failed(&arrays);
    BlockNetwork f = {values(new_weights), values(new_bias), values(new_head), 1.0, *values(head_bias),
                      n_arms, features, units};
    const Samples samples = {values(contexts), values(rewards), indices(arms), rows};
    const Step step = {in[8].number, in[9].number};
    double loss;
    Size steps;
    Py_BEGIN_ALLOW_THREADS;
    steps = descend_in_place(&f, &samples, in[7].size, step, in[10].number, values(hidden), &loss);
    Py_END_ALLOW_THREADS;
    *values(new_head_bias) = f.head_bias;
    return returned(&arrays, Py_BuildValue("OOOOnd", new_weights, new_bias, new_head, new_head_bias, steps, loss));
}

/* features(parameters, units, center, factor, limit, contexts) -> (n, units + inputs + 1) */
KERNEL(features) {
    TAKES("1s11d2")
    PyArrayObject *parameters = in[0].array, *center = in[2].array, *factor = in[3].array, *contexts = in[5].array;
    const Size rows = length(contexts, 0);
    const Sizes sizes = {length(contexts, 1), in[1].size, 0};
    if (sizes.units < 0 || sizes.units > length(parameters, 0) || parameters_of(sizes) > length(parameters, 0))
        return refused(&arrays, "there are not enough parameters for so many inputs and units");
    if (length(center, 0) != sizes.inputs || length(factor, 0) != sizes.inputs)
        return refused(&arrays, "center and factor must have a number for each column of the contexts");
    PyArrayObject *out = new_matrix(&arrays, rows, sizes.units + sizes.inputs + 1);
    if (!out)
        return failed(&arrays);
    const Scaling by = {values(center), values(factor), in[4].number};
    feature_rows(rows, sizes, layers(sizes, values(parameters)), by, values(contexts), values(out));
    return returned(&arrays, Py_BuildValue("O", out));
}

/* train(parameters, mean_square, units, n_arms, contexts, arms, rewards, rate, clip, keep, epsilon)
   -> parameters', mean_square', norm, loss */
KERNEL(train) {
    TAKES("12ss2i1dddd")
    PyArrayObject *parameters = in[0].array, *mean_square = in[1].array, *contexts = in[4].array, *arms = in[5].array;
    PyArrayObject *rewards = in[6].array;
    const Size count = length(parameters, 0), rows = length(contexts, 0);
    const Sizes sizes = {length(contexts, 1), in[2].size, in[3].size};
    if (sizes.units < 0 || sizes.arms < 0 || sizes.units > count || sizes.arms > count || parameters_of(sizes) != count)
        return refused(&arrays, "the number of parameters does not fit the inputs, units and arms");
    if (length(mean_square, 0) != 1 || length(mean_square, 1) != count)
        return refused(&arrays, "mean_square must be one row with a number for each parameter");
    if (length(arms, 0) != rows || length(rewards, 0) != rows || !all_below(arms, sizes.arms))
        return refused(&arrays, "there must be an arm of the network and a reward for each context");
    PyArrayObject *new_parameters, *new_mean_square, *gradient, *hidden;
    if (!(new_parameters = new_vector(&arrays, count)) || !(new_mean_square = new_matrix(&arrays, 1, count)) ||
        !(gradient = new_vector(&arrays, count)) || !(hidden = new_matrix(&arrays, rows, sizes.units)))
        return failed(&arrays);
    const double loss =
        mean_squared_error(rows, sizes, layers(sizes, values(parameters)), values(contexts), indices(arms),
                           values(rewards), values(gradient), values(hidden));
    const RMSProp by = {in[7].number, in[8].number, in[9].number, in[10].number};
    const double slope = norm(count, values(gradient));
    rmsprop(count, by, slope, values(gradient), values(parameters), values(mean_square), values(new_parameters),
            values(new_mean_square));
    return returned(&arrays, Py_BuildValue("OOdd", new_parameters, new_mean_square, slope, loss));
}

/* Return whether means (arms, n) have roots (arms, n, n), and a and b one number for each arm. */
static int is_posterior(PyArrayObject *mu, PyArrayObject *root, PyArrayObject *a, PyArrayObject *b) {
    const Size n_arms = length(mu, 0), n = length(mu, 1);
    return length(root, 0) == n_arms && length(root, 1) == n && length(root, 2) == n && length(a, 0) == n_arms &&
           length(b, 0) == n_arms;
}

/* score(mu, root, a, b, z) -> mean, scale, freedom */
KERNEL(score) {
    TAKES("23111")
    PyArrayObject *mu = in[0].array, *root = in[1].array, *a = in[2].array, *b = in[3].array, *z = in[4].array;
    const Size n_arms = length(mu, 0), n = length(mu, 1);
    if (!is_posterior(mu, root, a, b) || length(z, 0) != n)
        return refused(&arrays, "the sizes of mu, root, a, b and z do not fit");
    PyArrayObject *mean, *scale, *freedom;
    if (!(mean = new_vector(&arrays, n_arms)) || !(scale = new_vector(&arrays, n_arms)) ||
        !(freedom = new_vector(&arrays, n_arms)))
        return failed(&arrays);
    for (Size arm = 0; arm < n_arms; arm++) {
        const double spread = squared_length_of_product(n, values(root) + arm * n * n, values(z));
        values(mean)[arm] = dot(n, values(mu) + arm * n, values(z));
        values(scale)[arm] = sqrt(spread * (values(b)[arm] / values(a)[arm]));
        values(freedom)[arm] = 2.0 * values(a)[arm];
    }
    return returned(&arrays, Py_BuildValue("OOO", mean, scale, freedom));
}

/* predicted(mu, root, arm, z, reward) -> mean', root' of the arm, half, scale */
KERNEL(predicted) {
    TAKES("23s1d")
    PyArrayObject *mu = in[0].array, *root = in[1].array, *z = in[3].array;
    const Size arm = in[2].size, n = length(mu, 1);
    if (length(root, 0) != length(mu, 0) || length(root, 1) != n || length(root, 2) != n || length(z, 0) != n)
        return refused(&arrays, "the sizes of mu, root and z do not fit");
    if (arm < 0 || arm >= length(mu, 0))
        return refused(&arrays, "there is no such arm");
    PyArrayObject *mean, *new_root, *whitened;
    if (!(mean = new_vector(&arrays, n)) || !(new_root = new_matrix(&arrays, n, n)) ||
        !(whitened = new_vector(&arrays, n)))
        return failed(&arrays);
    const Predicted before = condition(n, values(mu) + arm * n, values(root) + arm * n * n, values(z), in[4].number,
                                       values(whitened), values(mean), values(new_root));
    return returned(&arrays, Py_BuildValue("OOdd", mean, new_root, before.half, before.scale));
}

/* sample(uniforms, batches, held, order or None, arms, n_arms) -> slots, rows, arms: each batch sorted by arm */
KERNEL(sample) {
    TAKES("1ssois")
    PyArrayObject *uniforms = in[0].array, *order = in[3].array, *arms = in[4].array;
    const Size batches = in[1].size, held = in[2].size, n_arms = in[5].size;
    const Size count = length(uniforms, 0), stored = length(arms, 0);
    if (batches < 1 || count % batches != 0 || held > (order ? length(order, 0) : stored))
        return refused(&arrays, "held must be slots of the memory, and each batch as large as the others");
    PyArrayObject *slots, *rows, *sorted, *next;
    if (!(slots = new_indices(&arrays, count)) || !(rows = new_indices(&arrays, count)) ||
        !(sorted = new_indices(&arrays, count)) || !(next = new_indices(&arrays, (n_arms < 0 ? 0 : n_arms) + 1)))
        return failed(&arrays);
    const Memory memory = {order ? indices(order) : NULL, indices(arms), held, stored, n_arms};
    const Size size = count / batches;
    for (Size at = 0; at < count; at += size) {
        const Batch out = {indices(slots) + at, indices(rows) + at, indices(sorted) + at};
        if (!draw_batch(size, values(uniforms) + at, &memory, indices(next), out))
            return refused(&arrays, "a number drawn is not in [0, 1), or its row or arm does not exist");
    }
    return returned(&arrays, Py_BuildValue("OOO", slots, rows, sorted));
}

/* draw(bit generator's capsule, mean, scale, freedom, optimism, temperature) -> scores */
KERNEL(draw) {
    TAKES("c111dd")
    PyArrayObject *mean = in[1].array, *scale = in[2].array, *freedom = in[3].array;
    const Size n = length(mean, 0);
    if (length(scale, 0) != n || length(freedom, 0) != n)
        return refused(&arrays, "mean, scale and freedom must have one size");
    PyArrayObject *out = new_vector(&arrays, n);
    if (!out)
        return failed(&arrays);
    const double optimism = in[4].number, temperature = in[5].number;
    draw_scores(n, in[0].pointer, values(mean), values(scale), values(freedom), optimism, temperature, values(out));
    return returned(&arrays, Py_BuildValue("O", out));
}

/* has_avx2() -> whether this processor runs the extension for AVX2 and FMA */
KERNEL(has_avx2) {
    TAKES("")
    (void)in;
    return PyBool_FromLong(has_avx2_and_fma());
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {METHOD(descend), METHOD(draw),  METHOD(features), METHOD(has_avx2), METHOD(predicted),
                                METHOD(sample),  METHOD(score), METHOD(train),    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "lim2._kernels", .m_size = -1,
                                        .m_methods = methods};

#define JOINED(a, b) a##b
#define INIT(name) JOINED(PyInit_, name)
PyMODINIT_FUNC INIT(MODULE)(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
