/* The kernels as functions of Python: arrays in, new arrays out; what comes in is never written. */
#include "arrays.h"

#include "descend.h"
#include "processor.h"

/* Changes with every signature below, so that an extension of other sources is not used. */
#define INTERFACE 1

#define KERNEL(name) static PyObject *name(PyObject *module, PyObject *const *given, Py_ssize_t count)
#define TAKES(number)                                                                                                  \
    (void)module;                                                                                                      \
    Arrays arrays = {.count = 0};                                                                                      \
    if (count != (number)) {                                                                                           \
        PyErr_Format(PyExc_TypeError, "%s takes %d arguments, got %zd", __func__, (number), count);                    \
        return NULL;                                                                                                   \
    }

/* descend(weights, bias, head, head_bias, contexts, arms, rewards, steps, rate, keep, stop_loss)
   -> weights', bias', head', head_bias', taken, loss */
KERNEL(descend) {
    TAKES(11)
    PyArrayObject *weights, *bias, *head, *head_bias, *contexts, *arms, *rewards;
    if (!(weights = numbers(&arrays, given[0], 3)) || !(bias = numbers(&arrays, given[1], 1)) ||
        !(head = numbers(&arrays, given[2], 1)) || !(head_bias = numbers(&arrays, given[3], 1)) ||
        !(contexts = numbers(&arrays, given[4], 2)) || !(arms = counters(&arrays, given[5])) ||
        !(rewards = numbers(&arrays, given[6], 1)))
        return failed(&arrays);
    const Size steps = PyLong_AsSsize_t(given[7]);
    const Step step = {.rate = PyFloat_AsDouble(given[8]), .keep = PyFloat_AsDouble(given[9])};
    const double stop_loss = PyFloat_AsDouble(given[10]);
    if (PyErr_Occurred())
        return failed(&arrays);
    const Size n_arms = length(weights, 0), features = length(weights, 1), units = length(weights, 2);
    if (length(bias, 0) != units || length(head, 0) != units || length(head_bias, 0) != 1)
        return refused(&arrays, "bias and head must have a number for each hidden unit, and head_bias one");
    if (length(contexts, 1) != features || length(arms, 0) != length(contexts, 0) ||
        length(rewards, 0) != length(contexts, 0))
        return refused(&arrays, "contexts must be (n, features), with an arm and a reward for each");
    if (!all_below(arms, n_arms))
        return refused(&arrays, "an arm has no block of weights");

    PyArrayObject *new_weights, *new_bias, *new_head, *new_head_bias, *hidden;
    if (!(new_weights = copy_of(&arrays, weights)) || !(new_bias = copy_of(&arrays, bias)) ||
        !(new_head = copy_of(&arrays, head)) || !(new_head_bias = copy_of(&arrays, head_bias)) ||
        !(hidden = new_vector(&arrays, units)))
        return failed(&arrays);
    BlockNetwork f = {filled(new_weights), filled(new_bias), filled(new_head), 1.0, values(head_bias)[0],
                      n_arms, features, units};
    const Samples samples = {values(contexts), values(rewards), indices(arms), length(arms, 0)};
    double loss;
    Size taken;
    Py_BEGIN_ALLOW_THREADS;
    taken = descend_in_place(&f, &samples, steps, step, stop_loss, filled(hidden), &loss);
    Py_END_ALLOW_THREADS;
    filled(new_head_bias)[0] = f.head_bias;
    PyObject *out = Py_BuildValue("OOOOnd", new_weights, new_bias, new_head, new_head_bias, taken, loss);
    release(&arrays);
    return out;
}

/* has_avx2() -> whether this processor runs the extension for AVX2 and FMA */
KERNEL(has_avx2) {
    (void)given;
    TAKES(0)
    (void)arrays;
    return PyBool_FromLong(has_avx2_and_fma());
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {METHOD(descend), METHOD(has_avx2), {NULL, NULL, 0, NULL}};

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
