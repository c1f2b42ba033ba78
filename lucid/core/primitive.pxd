# Functions that compiled code calls without Python's calling convention, with the C types of their variables.

cimport cython
from lucid.core.levels cimport newest, tracing
from lucid.core.fields cimport Edge, TensorFields, next_seq
from lucid.core.node cimport Node, array_of, save_input, save_output, split_edges, tensor_of, unrecorded
from lucid.core.storage cimport Saved, Storage, View, new_view, storage_of
from lucid.core.tensor cimport shape_of


cdef class Rule:
    cdef public object fn
    cdef public tuple names, picks, values
    cpdef list arguments(self, object values, object params)
    cpdef list read(self, Node node, object ct)


cdef class Plan:
    cdef public tuple keeps
    cdef public int alone, source


cdef class Primitive:
    cdef dict __dict__
    cdef object __weakref__
    cdef public object abstract, batch, jvp, kernel, public
    cdef public str name
    cdef public tuple names, operands, rules
    cdef public list plans
    cdef public bint broadcasts, differentiable, is_call, is_variadic, is_view, multi, records_itself, pulls_arrays
    cdef public bint pulls_new, shows_elements, shows_part


cpdef object pulled(Rule rule, Node node, object ct)
@cython.locals(beside=TensorFields)
cpdef object saved_at(Node node, int place, object ct)
cpdef object pulled_by_tensors(Node node, object ct)
cpdef object bare(object found)
@cython.locals(view=View, below=TensorFields)
cpdef object synced(TensorFields tensor)
@cython.locals(
    tensor=TensorFields, view=View, highest=cython.longlong, needs=cython.longlong, bit=cython.longlong,
    found=cython.bint, given=cython.bint, need=cython.bint, numbers=cython.bint,
)
cpdef object apply(Primitive prim, object args, dict params)
cpdef object run_plain(Primitive prim, tuple args, object kind, bint need, long long needs, dict params)
@cython.locals(fields=TensorFields)
cpdef object array_in(object operand, object kind)
cpdef object put_on_tape(Primitive prim, tuple args, object kind, long long needs, object out, dict params)
@cython.locals(made=TensorFields)
cpdef TensorFields wrapped(object array)
cpdef object constant(object value, object kind)
@cython.locals(made=TensorFields, plan=Plan, count=cython.Py_ssize_t, i=cython.Py_ssize_t)
cpdef object write_node(Primitive prim, tuple args, object kind, long long needs, object out, dict params)
@cython.locals(node=Node)
cpdef object passed_shape(Edge edge, TensorFields operand)
cpdef object kept(Primitive prim, Plan plan, object args, object kind, object out)
@cython.locals(storage=Storage)
cpdef object note_view(object prim, TensorFields base, dict params, TensorFields out)
cpdef bint shares_memory(TensorFields base, TensorFields out)
@cython.locals(fields=TensorFields)
cpdef object element_type(object tensor)
cpdef object edge_of(TensorFields tensor)
@cython.locals(node=Node, before=Node)
cpdef Node attach(
    TensorFields out, object prim, Edge left, object right, tuple others, object saved, int place_of_saved,
    object shapes, dict params, object shape,
)
cpdef object look_at(Node node, TensorFields out)
