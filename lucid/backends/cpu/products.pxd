cpdef object dot(object x, object y)
