# Functions that compiled code calls without Python's calling convention, with the C types of their variables.

cimport cython
from lucid.core.destinations cimport filled_by
from lucid.core.levels cimport tracing
from lucid.core.fields cimport Edge, TensorFields
from lucid.core.node cimport Node, Plan, attach, note_if_not_finite, output_edge, pack_saved, save_input, save_output, saved_at, settle, split_edges
from lucid.core.storage cimport Saved, Storage, View, new_view, storage_of
from lucid.core.tensor cimport class_of, shape_of, wrapped, wrapped_as
from lucid.native cimport PyObject_Call


cdef class Rule:
    cdef public object fn, places
    cdef public tuple names, picks, values
    cdef public bint takes_ct
    cpdef list arguments(self, object values, object params)
    cpdef list read(self, Node node, object ct, object params=*)
    @cython.locals(read=list)
    cpdef object run(self, Node node, object ct, object lead, dict params)


cdef class Primitive:
    cdef dict __dict__
    cdef object __weakref__
    cdef public object abstract, batch, jvp, kernel, public
    cdef public str name
    cdef public tuple names, operands, results, rules
    cdef public dict shared
    cdef public list plans
    cdef public Plan only_plan
    cdef public bint broadcasts, differentiable, gives_residuals, is_call, is_variadic, is_view, multi, pulls_arrays
    cdef public bint pulls_new, shows_elements, shows_part
    cpdef object vjp(self, Node node, object ct)


cpdef object lift(object value)
cdef object _pulled(Rule rule, Node node, Edge edge, object ct, object lead, dict params)
cpdef object pulled_by_tensors(Node node, object ct)
cpdef object bare(object found)
@cython.locals(view=View, below=TensorFields)
cpdef object synced(TensorFields tensor)
cpdef object lift(object value)
@cython.locals(
    tensor=TensorFields, view=View, highest=cython.longlong, needs=cython.longlong, bit=cython.longlong,
    found=cython.bint, given=cython.bint, need=cython.bint, numbers=cython.bint,
)
cpdef object apply(Primitive prim, object args, dict params)
cpdef object run_plain(Primitive prim, tuple args, object kind, bint need, long long needs, dict params)
cpdef tuple arrays_in(tuple args, object kind)
@cython.locals(fields=TensorFields)
cpdef object array_in(object operand, object kind)
cpdef object put_on_tape(
    Primitive prim, tuple args, object kind, long long needs, object out, dict params, object residuals=*
)
cpdef object constant(object value, object kind)
@cython.locals(made=TensorFields, plan=Plan, count=cython.Py_ssize_t, i=cython.Py_ssize_t)
cpdef object write_node(
    Primitive prim, tuple args, object kind, long long needs, object out, dict params, object residuals, object mode
)
@cython.locals(node=Node, tensor=TensorFields, live=cython.bint, shapes=list, i=cython.Py_ssize_t)
cpdef object write_results(
    Primitive prim, object args, long long needs, object outs, dict params, object residuals, object mode, object constant=*
)
@cython.locals(node=Node)
cpdef object passed_shape(Edge edge, TensorFields operand)
@cython.locals(k=cython.Py_ssize_t, number=cython.Py_ssize_t)
cpdef object kept(Plan plan, object args, object kind, object out, object residuals)
@cython.locals(saved=Saved)
cpdef object kept_result(object out, Py_ssize_t number)
@cython.locals(storage=Storage)
cpdef object note_view(object prim, TensorFields base, dict params, TensorFields out)
cpdef object status_of_view(TensorFields base)
cpdef bint shares_memory(TensorFields base, TensorFields out)
@cython.locals(fields=TensorFields)
cpdef object element_type(object tensor)
cpdef tuple edges_of(object args)
@cython.locals(tensor=TensorFields)
cdef object edge_if_needed(object operand)
cpdef object edge_of(TensorFields tensor)
