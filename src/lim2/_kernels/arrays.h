/* The boundary: Python's arguments become numbers and arrays whose type, order and axes are checked. */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <string.h>

typedef npy_intp Size;

/* All arrays of one call, so that one function gives them back. */
enum { MOST_ARRAYS = 16 };
typedef struct {
    PyObject *array[MOST_ARRAYS];
    int count;
} Arrays;

static PyArrayObject *kept(Arrays *arrays, PyObject *array) {
    if (array != NULL)
        arrays->array[arrays->count++] = array;
    return (PyArrayObject *)array;
}

/* The end of a call: a result, which holds the arrays that it needs, or NULL with an error. */
static PyObject *returned(Arrays *arrays, PyObject *result) {
    for (int i = 0; i < arrays->count; i++)
        Py_DECREF(arrays->array[i]);
    return result;
}

static PyObject *failed(Arrays *arrays) {
    return returned(arrays, NULL);
}

static PyObject *refused(Arrays *arrays, const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return failed(arrays);
}

/* Return an argument as an aligned array in C order, itself where it is one; NULL with an error if that cannot be. */
static PyArrayObject *as_array(Arrays *arrays, PyObject *object, int type, int axes) {
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_CheckExact(object) && PyArray_TYPE(array) == type && PyArray_NDIM(array) == axes &&
        PyArray_ISCARRAY_RO(array)) {
        Py_INCREF(object);
        return kept(arrays, object);
    }
    PyArray_Descr *kind = PyArray_DescrFromType(type);
    return kept(arrays, PyArray_FromAny(object, kind, axes, axes, NPY_ARRAY_CARRAY_RO, NULL));
}

typedef union {
    PyArrayObject *array;
    void *pointer;
    double number;
    Size size;
} Argument;

/* Read arguments, each of a kind: numbers in an array with 1, 2 or 3 axes; (i)ndices; (o)ptional ones, NULL for None;
   a (d)ouble; a (s)ize; the (c)apsule of a bit generator. Return whether all could be read. */
static int taken(Arrays *arrays, const char *name, const char *kinds, PyObject *const *given, Py_ssize_t count,
                 Argument *out) {
    const Py_ssize_t expected = (Py_ssize_t)strlen(kinds);
    if (count != expected) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", name, expected, count);
        return 0;
    }
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        if (kinds[i] == 'd')
            out[i].number = PyFloat_AsDouble(given[i]);
        else if (kinds[i] == 's')
            out[i].size = PyLong_AsSsize_t(given[i]);
        else if (kinds[i] == 'c')
            out[i].pointer = PyCapsule_GetPointer(given[i], "BitGenerator");
        else if (kinds[i] == 'i' || (kinds[i] == 'o' && given[i] != Py_None))
            out[i].array = as_array(arrays, given[i], NPY_INTP, 1);
        else
            out[i].array = kinds[i] == 'o' ? NULL : as_array(arrays, given[i], NPY_DOUBLE, kinds[i] - '0');
    }
    return !PyErr_Occurred();
}

static Size length(PyArrayObject *array, int axis) {
    return PyArray_DIM(array, axis);
}

static double *values(PyArrayObject *array) {
    return PyArray_DATA(array);
}

static Size *indices(PyArrayObject *array) {
    return PyArray_DATA(array);
}

/* Return whether every index is one of `count`. */
static int all_below(PyArrayObject *array, Size count) {
    for (Size i = 0; i < length(array, 0); i++)
        if (indices(array)[i] < 0 || indices(array)[i] >= count)
            return 0;
    return 1;
}

/* New arrays, whose values are not set; NULL with an error if there is no memory. */
static PyArrayObject *new_array(Arrays *arrays, int type, int axes, Size rows, Size columns) {
    Size shape[2] = {rows, columns};
    return kept(arrays, PyArray_SimpleNew(axes, shape, type));
}

static PyArrayObject *new_vector(Arrays *arrays, Size size) {
    return new_array(arrays, NPY_DOUBLE, 1, size, 1);
}

static PyArrayObject *new_matrix(Arrays *arrays, Size rows, Size columns) {
    return new_array(arrays, NPY_DOUBLE, 2, rows, columns);
}

static PyArrayObject *new_indices(Arrays *arrays, Size size) {
    return new_array(arrays, NPY_INTP, 1, size, 1);
}

static PyArrayObject *copy_of(Arrays *arrays, PyArrayObject *original) {
    return kept(arrays, PyArray_NewCopy(original, NPY_CORDER));
}
