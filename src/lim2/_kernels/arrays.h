/* The boundary: Python's arguments become arrays whose type, order and sizes are checked. */
#ifndef LIM2_ARRAYS_H
#define LIM2_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>

typedef npy_intp Size;

/* All arrays of one call, so that one function gives them back. */
enum { MOST_ARRAYS = 16 };
typedef struct {
    PyArrayObject *array[MOST_ARRAYS];
    int count;
} Arrays;

static void release(Arrays *arrays) {
    for (int i = 0; i < arrays->count; i++)
        Py_DECREF((PyObject *)arrays->array[i]);
    arrays->count = 0;
}

/* A failure: all arrays are given back, the error of Python is set. */
static PyObject *failed(Arrays *arrays) {
    release(arrays);
    return NULL;
}

static PyObject *refused(Arrays *arrays, const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return failed(arrays);
}

static int is_plain(PyObject *object, int type, int axes) {
    if (!PyArray_CheckExact(object))
        return 0;
    PyArrayObject *array = (PyArrayObject *)object;
    return PyArray_TYPE(array) == type && PyArray_NDIM(array) == axes && PyArray_ISCARRAY_RO(array);
}

/* Return an argument as an aligned array in C order, itself where it is one; NULL with an error if that cannot be. */
static PyArrayObject *argument(Arrays *arrays, PyObject *object, int type, int axes) {
    PyArrayObject *array;
    if (is_plain(object, type, axes)) {
        Py_INCREF(object);
        array = (PyArrayObject *)object;
    } else {
        PyArray_Descr *kind = PyArray_DescrFromType(type);
        array = (PyArrayObject *)PyArray_FromAny(object, kind, axes, axes, NPY_ARRAY_CARRAY_RO, NULL);
        if (array == NULL)
            return NULL;
    }
    arrays->array[arrays->count++] = array;
    return array;
}

static PyArrayObject *numbers(Arrays *arrays, PyObject *object, int axes) {
    return argument(arrays, object, NPY_DOUBLE, axes);
}

static PyArrayObject *counters(Arrays *arrays, PyObject *object) {
    return argument(arrays, object, NPY_INTP, 1);
}

static Size length(PyArrayObject *array, int axis) {
    return PyArray_DIM(array, axis);
}

static const double *values(PyArrayObject *array) {
    return PyArray_DATA(array);
}

static const Size *indices(PyArrayObject *array) {
    return PyArray_DATA(array);
}

/* Return whether every index is one of `count`. */
static int all_below(PyArrayObject *array, Size count) {
    const Size *index = indices(array);
    for (Size i = 0; i < length(array, 0); i++)
        if (index[i] < 0 || index[i] >= count)
            return 0;
    return 1;
}

/* Return a new array, whose values are not set; NULL with an error if there is no memory. */
static PyArrayObject *new_array(Arrays *arrays, int type, int axes, Size rows, Size columns) {
    Size shape[2] = {rows, columns};
    PyArrayObject *array = (PyArrayObject *)PyArray_SimpleNew(axes, shape, type);
    if (array != NULL)
        arrays->array[arrays->count++] = array;
    return array;
}

static PyArrayObject *new_vector(Arrays *arrays, Size size) {
    return new_array(arrays, NPY_DOUBLE, 1, size, 1);
}

static PyArrayObject *new_matrix(Arrays *arrays, Size rows, Size columns) {
    return new_array(arrays, NPY_DOUBLE, 2, rows, columns);
}

static PyArrayObject *copy_of(Arrays *arrays, PyArrayObject *original) {
    PyArrayObject *array = (PyArrayObject *)PyArray_NewCopy(original, NPY_CORDER);
    if (array != NULL)
        arrays->array[arrays->count++] = array;
    return array;
}

static double *filled(PyArrayObject *array) {
    return PyArray_DATA(array);
}

#endif
